"""Load jobs: files become new segments, then one commit makes them the table's rows (F16, F18, F19)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from devstack.bigquery.errors import Invalid
from devstack.bigquery.jobs.destination import NewSegments, check_dispositions, resolve_settings, written
from devstack.bigquery.jobs.json_rows import parse_rows
from devstack.bigquery.jobs.load_request import LoadRequest, parse_load
from devstack.bigquery.jobs.parquet_rows import ParquetSource
from devstack.bigquery.jobs.partition_rows import check_destination, split_rows
from devstack.bigquery.jobs.runner import JobContext
from devstack.bigquery.jobs.source_files import ObjectStore, SourceFile
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.catalog import Catalog, Change
from devstack.bigquery.storage.model import JobMark, Segment, TableSettings, TableVersion
from devstack.bigquery.storage.segments import Batch

FILES_AT_A_TIME = 2  # decoding is bound by the cores, and each file is in memory whole


@dataclass(frozen=True)
class _Input:
    """One file of the job and the way to its bytes."""

    uri: str
    size: int
    read: Callable[[], bytes]


class LoadWork:
    def __init__(self, catalog: Catalog, objects: ObjectStore, uploads: Path) -> None:
        self._catalog = catalog
        self._objects = objects
        self._uploads = uploads

    def __call__(self, context: JobContext) -> Mapping[str, Any]:
        try:
            return self._load(context)
        finally:
            if context.record.upload is not None:
                (self._uploads / context.record.upload).unlink()

    def _load(self, context: JobContext) -> Mapping[str, Any]:
        request = parse_load(context.record.configuration["load"])
        self._catalog.datasets.get(request.table.dataset_id)
        current = self._catalog.find(request.table)
        check_dispositions(request.table, request.partition, current, request.create, request.write)
        inputs = self._inputs(context, request)
        settings = self._settings(request, current, _fields(request, inputs[-1]))
        with self._catalog.segments.batch() as batch:
            segments = self._write(context, request, settings, inputs, batch)
            statistics = _statistics(inputs, segments)
            context.check_cancelled()
            self._catalog.commit(
                request.table,
                lambda now, commit_us: self._change(request, settings, now, segments, commit_us),
                JobMark(context.record.key, statistics),
            )
        return statistics

    def _inputs(self, context: JobContext, request: LoadRequest) -> list[_Input]:
        if context.record.upload is not None:
            path = self._uploads / context.record.upload
            return [_Input("uploaded file", path.stat().st_size, path.read_bytes)]
        files = self._objects.resolve(request.uris, request.is_manifest)
        return [_Input(file.uri, file.size, self._reader(file)) for file in files]

    def _reader(self, file: SourceFile) -> Callable[[], bytes]:
        return lambda: self._objects.read(file)

    def _settings(
        self, request: LoadRequest, current: TableVersion | None, fields: tuple[TableField, ...] | None
    ) -> TableSettings:
        existing = current.settings if current else None
        if fields is None:
            if existing is None or not existing.schema:
                raise Invalid(
                    f"No schema specified on job or table {request.table}: give load.schema, the stand-in does not "
                    "detect the schema of JSON."
                )
            fields = existing.schema
        replaces = request.write == "WRITE_TRUNCATE" and request.partition is None
        settings = resolve_settings(request.table, existing, fields, request.layout, replaces)
        if request.partition is not None and settings.partition_column is None:
            raise Invalid(f"Table {request.table} is not partitioned: leave [${request.partition}] out.")
        return _with_properties(request, existing, settings)

    def _write(
        self,
        context: JobContext,
        request: LoadRequest,
        settings: TableSettings,
        inputs: Sequence[_Input],
        batch: Batch,
    ) -> NewSegments:
        def load_one(source: _Input) -> list[tuple[str, Segment]]:
            context.check_cancelled()
            content = source.read()
            rows, adoptable = _rows(request, settings.schema, source.uri, content)
            parts = list(split_rows(rows, settings.partition_column))
            for key, _ in parts:
                check_destination(request.table, request.partition, key)
            if adoptable and len(parts) == 1:
                return [(parts[0][0], batch.adopt(rows, content))]
            return [(key, batch.write(part)) for key, part in parts]

        segments: dict[str, list[Segment]] = {}
        with ThreadPoolExecutor(FILES_AT_A_TIME) as pool:
            for written_segments in pool.map(load_one, inputs):
                for key, segment in written_segments:
                    segments.setdefault(key, []).append(segment)
        return segments

    def _change(
        self,
        request: LoadRequest,
        settings: TableSettings,
        current: TableVersion | None,
        segments: NewSegments,
        commit_us: int,
    ) -> Change:
        """Decided again under the table's lock: the table may have changed while the files were read."""
        check_dispositions(request.table, request.partition, current, request.create, request.write)
        latest = self._settings(request, current, settings.schema)
        if latest.schema != settings.schema or latest.partition_column != settings.partition_column:
            raise Invalid(f"Table {request.table} changed its schema while the job ran: run the job again.")
        return written("load", latest, current, segments, request.write, request.partition, commit_us)


def _fields(request: LoadRequest, last: _Input) -> tuple[TableField, ...] | None:
    """Declared, or those of the alphabetically last Parquet file (F19)."""
    if request.schema is not None:
        return request.schema
    if request.source_format == "PARQUET":
        return ParquetSource(last.uri, last.read(), request.list_inference).fields
    return None


def _rows(request: LoadRequest, schema: Sequence[TableField], uri: str, content: bytes) -> tuple[pa.Table, bool]:
    if request.source_format == "NEWLINE_DELIMITED_JSON":
        return parse_rows(uri, content, schema), False
    source = ParquetSource(uri, content, request.list_inference)
    source.check(schema)
    return source.rows(schema), source.can_be_adopted(schema)


def _with_properties(request: LoadRequest, existing: TableSettings | None, settings: TableSettings) -> TableSettings:
    """Description, name and labels are for a new table; on an existing one they may only repeat what is there."""
    wanted = {
        "description": request.description,
        "friendly_name": request.friendly_name,
        "labels": dict(request.labels) if request.labels is not None else None,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    if existing is None:
        return replace(settings, **given)  # type: ignore[arg-type]  # keys are those of TableSettings
    for name, value in given.items():
        if getattr(existing, name) != value:
            raise Invalid(
                f"destinationTableProperties.{name} is [{value}], but table {request.table} exists and has "
                f"[{getattr(existing, name)}]: leave it out or give the table's own."
            )
    return replace(settings, description=request.description or settings.description)


def _statistics(inputs: Sequence[_Input], segments: NewSegments) -> dict[str, Any]:
    new = [segment for parts in segments.values() for segment in parts]
    return {
        "load": {
            "inputFiles": str(len(inputs)),
            "inputFileBytes": str(sum(source.size for source in inputs)),
            "outputRows": str(sum(segment.rows for segment in new)),
            "outputBytes": str(sum(segment.bytes for segment in new)),
            "badRecords": "0",
        }
    }
