"""Makes files readable as the temporary external tables of a query job.

Each external table becomes a table version, so that it is read and billed like other tables. Its segments (stored
Parquet files) are deleted when the job ends. Its pseudo column `_FILE_NAME` contains the source URI of each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.jobs.job_configuration import UNSET_VALUES, SourceFiles, parse_source_files
from bigquery_standin.jobs.object_store import ObjectStore
from bigquery_standin.jobs.parquet_rows import ParquetSource
from bigquery_standin.sql.value_generator import FILE_NAME
from bigquery_standin.storage.model import WHOLE_TABLE, Partition, Segment, TableId, TableSettings, TableVersion
from bigquery_standin.storage.segment_store import SegmentBatch, SegmentStore

EXTERNAL_FORMATS = ("PARQUET",)
# The supported fields of a definition; any other field is refused by name.
DEFINITION_FIELDS = ("sourceFormat", "sourceUris", "fileSetSpecType", "parquetOptions")
_PARQUET_OPTIONS = ("enableListInference", "enumAsString")


@dataclass(frozen=True)
class ExternalTable:
    """An external table that has been read. `uris`: the source URIs of the version's segments, in their order."""

    table: TableId
    version: TableVersion
    uris: tuple[str, ...]

    def file_names(self) -> pa.Table:
        """The number and the source URI of each segment."""
        numbers = pa.array(range(len(self.uris)), pa.int64())
        return pa.table({"number": numbers, "uri": pa.array(self.uris, pa.string())})


def parse_table_definitions(definitions: Mapping[str, Any]) -> dict[str, SourceFiles]:
    """The files of each definition in `configuration.query.tableDefinitions`, by lower-case name.

    Raises Invalid for what BigQuery does not accept, NotImplementedConstruct for what the stand-in does not support.
    """
    parsed: dict[str, SourceFiles] = {}
    for name, definition in definitions.items():
        if name.lower() in parsed:
            raise Invalid(f"Table definition [{name}] is given twice: names do not differ by case.")
        parsed[name.lower()] = _definition(f"tableDefinitions.{name}", definition)
    return parsed


def _definition(path: str, definition: Mapping[str, Any]) -> SourceFiles:
    if definition.get("schema"):
        # Source: REST resource tables, ExternalDataConfiguration.schema.
        raise Invalid(f"Schema is disallowed for Parquet formats: leave {path}.schema out.")
    source_format = definition.get("sourceFormat")
    if not source_format:
        raise Invalid(f"Required parameter is missing: {path}.sourceFormat")
    if source_format not in EXTERNAL_FORMATS:
        raise NotImplementedConstruct(f"{path}.sourceFormat {source_format}")
    options = (definition.get("parquetOptions") or {}).items()
    unsupported = {
        **{key: value for key, value in definition.items() if key not in DEFINITION_FIELDS},
        **{f"parquetOptions.{key}": value for key, value in options if key not in _PARQUET_OPTIONS},
    }
    for key, value in unsupported.items():
        if value not in UNSET_VALUES:
            raise NotImplementedConstruct(f"{path}.{key}")
    return parse_source_files(path, definition)


class ExternalTables:
    """The external tables of one job. Each is read from the object store when it is first used.

    Its schema is that of the alphabetically last file.
    """

    def __init__(
        self, definitions: Mapping[str, SourceFiles], objects: ObjectStore, batch: SegmentBatch, has_file_names: bool
    ) -> None:
        self._definitions = definitions
        self._objects = objects
        self._batch = batch
        self.has_file_names = has_file_names
        self._opened: dict[str, ExternalTable] = {}

    def open(self, name: str) -> ExternalTable | None:
        """The table, or None if the job defines none of this name."""
        key = name.lower()
        if key in self._definitions and key not in self._opened:
            self._opened[key] = self._read(name, self._definitions[key])
        return self._opened.get(key)

    def _read(self, name: str, sources: SourceFiles) -> ExternalTable:
        files = self._objects.resolve(sources.uris, sources.is_manifest)
        last = files[-1]
        schema = ParquetSource(last.uri, self._objects.read(last), sources).fields
        segments: list[Segment] = []
        for file in files:
            content = self._objects.read(file)
            source = ParquetSource(file.uri, content, sources)
            source.check(schema)
            rows = source.rows(schema)
            stores_as_is = source.can_be_stored_as_is(schema)
            segments.append(self._batch.adopt(rows, content) if stores_as_is else self._batch.write(rows))
        settings = TableSettings(schema)
        version = TableVersion(1, 0, "external", 0, settings, {WHOLE_TABLE: Partition(tuple(segments), 0)})
        return ExternalTable(TableId("", "", name), version, tuple(file.uri for file in files))


@contextmanager
def open_external_tables(
    definitions: Mapping[str, SourceFiles], objects: ObjectStore, segments: SegmentStore, sql: str
) -> Iterator[ExternalTables]:
    """Yield the external tables of the job whose SQL text is `sql`. Their segments are deleted when the block ends."""
    with segments.temporary_batch() as batch:
        yield ExternalTables(definitions, objects, batch, FILE_NAME in sql.upper())
