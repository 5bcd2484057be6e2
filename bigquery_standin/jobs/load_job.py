"""Runs load jobs: writes the rows of files as new segments (stored Parquet files), and commits these to the table.

Newline-delimited JSON is parsed with BigQuery's conversions and error messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid, StandInError
from bigquery_standin.clock import MICROSECONDS
from bigquery_standin.jobs.destination_table import (
    NewSegments,
    check_dispositions,
    resolve_settings,
    with_new_columns,
    write_change,
)
from bigquery_standin.jobs.job_configuration import LoadConfiguration, parse_load_configuration
from bigquery_standin.jobs.job_runner import JobContext
from bigquery_standin.jobs.object_store import ObjectStore
from bigquery_standin.jobs.parquet_rows import ParquetSource
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import SCALARS
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import CommitInfo, Segment, TableId, TableSettings, TableVersion
from bigquery_standin.storage.partitions import check_destination_partition, split_rows
from bigquery_standin.storage.segment_store import arrow_schema, conform
from bigquery_standin.storage.table_rules import check_is_partitioned

PARALLEL_FILES = 2  # decoding is limited by the cores, and each file is in memory as a whole
UPDATES_PER_10_S = 5


@dataclass(frozen=True)
class _Input:
    """One file of the job. `size`: in bytes. `read` returns its content."""

    uri: str
    size: int
    read: Callable[[], bytes]


class LoadJob:
    """Runs load jobs.

    `updates_per_10_s`: if a table without partitions was changed so often, loads into it are refused. Source: "Quotas".
    """

    def __init__(self, catalog: Catalog, objects: ObjectStore, updates_per_10_s: int) -> None:
        self._catalog = catalog
        self._objects = objects
        self._updates_per_10_s = updates_per_10_s

    def __call__(self, context: JobContext) -> Mapping[str, Any]:
        config = parse_load_configuration(context.record.configuration["load"])
        self._catalog.datasets.get(config.table.dataset_id)
        with self._catalog.writing(config.table, context.check_cancelled) as current:
            context.check_cancelled()
            return self._load(context, config, current)

    def _load(self, context: JobContext, config: LoadConfiguration, current: TableVersion | None) -> Mapping[str, Any]:
        check_dispositions(config.table, config.partition, current, config.create_disposition, config.write_disposition)
        inputs = self._inputs(context, config)
        settings = self._settings(config, current, _fields(config, inputs[-1]))
        if settings.partition_column is None:
            self._check_rate(config.table)
        segments = self._write(context, config, settings, inputs)
        statistics = _statistics(inputs, segments)
        context.check_cancelled()
        if current is not None and config.adds_fields and current.settings.schema != settings.schema:
            current = with_new_columns(self._catalog.segments, current, settings.schema)
        commit_us = self._catalog.next_us(config.table)
        change = write_change(settings, current, segments, config.write_disposition, config.partition, commit_us)
        self._catalog.commit(config.table, change, CommitInfo(context.record.key, statistics))
        return statistics

    def _inputs(self, context: JobContext, config: LoadConfiguration) -> list[_Input]:
        content = context.upload
        if content is not None:
            return [_Input("uploaded file", len(content), lambda: content)]
        files = self._objects.resolve(config.sources.uris, config.sources.is_manifest)
        return [_Input(file.uri, file.size, partial(self._objects.read, file)) for file in files]

    def _settings(
        self, config: LoadConfiguration, current: TableVersion | None, fields: tuple[TableField, ...] | None
    ) -> TableSettings:
        """The table's settings after the job. `fields`: those of the job or file; None for those of the table.

        Raises Invalid if the job does not fit the table, or if neither job nor table has a schema.
        """
        existing = current.settings if current else None
        if fields is None:
            if existing is None or not existing.schema:
                raise Invalid(
                    f"No schema specified on job or table {config.table}: give load.schema, the stand-in does not "
                    "detect the schema of JSON."
                )
            fields = existing.schema
        replaces_schema = config.write_disposition == "WRITE_TRUNCATE" and config.partition is None
        settings = resolve_settings(config.table, existing, fields, replaces_schema, adds_fields=config.adds_fields)
        check_is_partitioned(config.table, settings, config.partition)
        return settings

    def _write(
        self, context: JobContext, config: LoadConfiguration, settings: TableSettings, inputs: Sequence[_Input]
    ) -> NewSegments:
        """Writes the rows of the files as segments. Raises Invalid for a file that does not fit the table."""

        def load_one(source: _Input) -> list[tuple[str, Segment]]:
            context.check_cancelled()
            partitions = list(split_rows(_rows(config, settings.schema, source.uri, source.read()), settings))
            for key, _ in partitions:
                check_destination_partition(config.table, config.partition, key)
            return [(key, self._catalog.segments.write(rows)) for key, rows in partitions]

        segments: dict[str, list[Segment]] = {}
        with ThreadPoolExecutor(PARALLEL_FILES) as pool:
            for written_segments in pool.map(load_one, inputs):
                for key, segment in written_segments:
                    segments.setdefault(key, []).append(segment)
        return segments

    def _check_rate(self, table: TableId) -> None:
        since_us = self._catalog.clock.now_us() - 10 * MICROSECONDS
        if self._catalog.history(table).count_since(since_us) >= self._updates_per_10_s:
            raise StandInError(
                f"Exceeded rate limits: too many table update operations for this table [{table}]: allowed "
                f"[{self._updates_per_10_s}] in 10 seconds. Wait ten seconds, then run the job again.",
                "rateLimitExceeded",
            )


def _fields(config: LoadConfiguration, last: _Input) -> tuple[TableField, ...] | None:
    """The fields that the job declares, else those of `last` if it is a Parquet file, else None.

    `last`: the alphabetically last file.
    """
    if config.schema is not None:
        return config.schema
    if config.source_format == "PARQUET":
        return ParquetSource(last.uri, last.read(), config.sources).fields
    return None


def _rows(config: LoadConfiguration, schema: Sequence[TableField], uri: str, content: bytes) -> pa.Table:
    """The rows of a file. Raises Invalid for a wrong file."""
    if config.source_format == "NEWLINE_DELIMITED_JSON":
        return parse_rows(uri, content, schema)
    source = ParquetSource(uri, content, config.sources)
    source.check(schema)
    return source.rows(schema)


def _statistics(inputs: Sequence[_Input], segments: NewSegments) -> dict[str, Any]:
    written = [segment for of_partition in segments.values() for segment in of_partition]
    return {
        "load": {
            "inputFiles": str(len(inputs)),
            "inputFileBytes": str(sum(source.size for source in inputs)),
            "outputRows": str(sum(segment.rows for segment in written)),
            "outputBytes": str(sum(segment.bytes for segment in written)),
            "badRecords": "0",
        }
    }


def parse_rows(uri: str, content: bytes, columns: Sequence[TableField]) -> pa.Table:
    """The rows of a file. Raises Invalid for a row that does not fit the columns."""
    rows = []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line, parse_float=Decimal)
            if not isinstance(document, dict):
                raise ValueError(f"expected a JSON object, found [{type(document).__name__}]")
            rows.append(parse_record(document, columns))
        except (ValueError, ArithmeticError) as error:
            raise Invalid(
                f"Error while reading data, error message: JSON parsing error in row [{number}]: {error}. File: {uri}"
            ) from error
    try:
        table = pa.Table.from_pylist(rows, schema=arrow_schema(columns))
    except (ValueError, OverflowError) as error:  # such as a number that is too large
        raise Invalid(f"Error while reading data, error message: JSON parsing error: {error}. File: {uri}") from error
    return conform(table, columns)


def parse_record(document: Mapping[str, Any], columns: Sequence[TableField], prefix: str = "") -> dict[str, Any]:
    """The row, or the nested record, of a JSON object. Raises ValueError for a value that does not fit its column.

    `prefix`: the path of a nested record in its row, with a final dot.
    """
    values = {name.lower(): value for name, value in document.items()}
    column_names = {column.name.lower() for column in columns}
    unknown = [name for name in document if name.lower() not in column_names]
    if unknown:
        raise ValueError(f"No such field: {prefix}{unknown[0]}")
    return {column.name: _value(values.get(column.name.lower()), column, prefix) for column in columns}


def _value(value: Any, column: TableField, prefix: str) -> Any:
    name = prefix + column.name
    if column.mode == "REPEATED":
        if value is None:
            return []
        if not isinstance(value, list):
            raise ValueError(f"Field {name} is an array, found [{value!r}]")
        if None in value:
            raise ValueError(f"Only optional fields can be set to NULL. Field: {name}; Value: NULL")
        return [_single_value(element, column, name) for element in value]
    return None if value is None else _single_value(value, column, name)


def _single_value(value: Any, column: TableField, name: str) -> Any:
    if column.type == "STRUCT":
        if not isinstance(value, dict):
            raise ValueError(f"Field {name} is a record, found [{value!r}]")
        return parse_record(value, column.fields, f"{name}.")
    try:
        return SCALARS[column.type].parse(value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"Could not convert value [{value!r}] to {column.type}. Field: {name}") from error
