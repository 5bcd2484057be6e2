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
from bigquery_standin.jobs.job_configuration import FILE_SET_SPECS, MANIFEST, UNSET_VALUES, enum_value
from bigquery_standin.jobs.object_store import MAXIMUM_URIS, ObjectStore
from bigquery_standin.jobs.parquet_rows import ParquetSource
from bigquery_standin.storage.model import WHOLE_TABLE, Partition, Segment, TableId, TableSettings, TableVersion
from bigquery_standin.storage.segment_store import SegmentBatch, SegmentStore

EXTERNAL_FORMATS = ("PARQUET",)
FILE_NAME = "_FILE_NAME"
# The supported fields of a definition; any other field is refused by name.
DEFINITION_FIELDS = ("sourceFormat", "sourceUris", "fileSetSpecType", "parquetOptions")


@dataclass(frozen=True)
class ExternalDefinition:
    """What a job's configuration says about an external table. Its schema is that of the alphabetically last file.

    `is_manifest`: whether the URIs are of manifests, which list files. `list_inference`, `enum_as_string`: the
    definition's `parquetOptions`.
    """

    name: str
    uris: tuple[str, ...]
    is_manifest: bool
    list_inference: bool
    enum_as_string: bool


@dataclass(frozen=True)
class ExternalTable:
    """An external table that has been read. `uris`: the source URIs of the version's segments, in their order."""

    table: TableId
    version: TableVersion
    uris: tuple[str, ...]


def parse_table_definitions(definitions: Mapping[str, Any]) -> dict[str, ExternalDefinition]:
    """The definitions in `configuration.query.tableDefinitions` by lower-case name.

    Raises Invalid for what BigQuery does not accept, NotImplementedConstruct for what the stand-in does not support.
    """
    parsed: dict[str, ExternalDefinition] = {}
    for name, definition in definitions.items():
        if name.lower() in parsed:
            raise Invalid(f"Table definition [{name}] is given twice: names do not differ by case.")
        parsed[name.lower()] = _definition(name, definition)
    return parsed


def _definition(name: str, definition: Mapping[str, Any]) -> ExternalDefinition:
    if definition.get("schema"):
        # Source: REST resource tables, ExternalDataConfiguration.schema.
        raise Invalid(f"Schema is disallowed for Parquet formats: leave tableDefinitions.{name}.schema out.")
    for key, value in definition.items():
        if key not in DEFINITION_FIELDS and value not in UNSET_VALUES:
            raise NotImplementedConstruct(f"tableDefinitions.{name}.{key}")
    source_format = definition.get("sourceFormat")
    if not source_format:
        raise Invalid(f"Required parameter is missing: tableDefinitions.{name}.sourceFormat")
    if source_format not in EXTERNAL_FORMATS:
        raise NotImplementedConstruct(f"tableDefinitions.{name}.sourceFormat {source_format}")
    uris = tuple(definition.get("sourceUris") or ())
    if len(uris) > MAXIMUM_URIS:
        raise Invalid(f"Too many source URIs for table {name}: found [{len(uris)}], allowed [{MAXIMUM_URIS}].")
    options = dict(definition.get("parquetOptions") or {})
    list_inference = bool(options.pop("enableListInference", False))
    enum_as_string = bool(options.pop("enumAsString", False))
    for key, value in options.items():
        if value not in UNSET_VALUES:
            raise NotImplementedConstruct(f"tableDefinitions.{name}.parquetOptions.{key}")
    spec = enum_value("fileSetSpecType", definition.get("fileSetSpecType"), FILE_SET_SPECS, FILE_SET_SPECS[0])
    return ExternalDefinition(
        name=name,
        uris=uris,
        is_manifest=spec == MANIFEST,
        list_inference=list_inference,
        enum_as_string=enum_as_string,
    )


def _source(definition: ExternalDefinition, uri: str, content: bytes) -> ParquetSource:
    return ParquetSource(uri, content, definition.list_inference, definition.enum_as_string)


class ExternalTables:
    """The external tables of one job. Each is read from the object store when it is first used."""

    def __init__(
        self,
        definitions: Mapping[str, ExternalDefinition],
        objects: ObjectStore,
        batch: SegmentBatch,
        has_file_names: bool,
    ) -> None:
        self._definitions = definitions
        self._objects = objects
        self._batch = batch
        self.has_file_names = has_file_names
        self._opened: dict[str, ExternalTable] = {}

    def open(self, name: str) -> ExternalTable | None:
        """The table, or None if the job defines none of this name."""
        definition = self._definitions.get(name.lower())
        if definition is None:
            return None
        if name.lower() not in self._opened:
            self._opened[name.lower()] = self._read(definition)
        return self._opened[name.lower()]

    @staticmethod
    def file_names(external: ExternalTable) -> pa.Table:
        """The number and the source URI of each segment."""
        numbers = pa.array(range(len(external.uris)), pa.int64())
        return pa.table({"number": numbers, "uri": pa.array(external.uris, pa.string())})

    def _read(self, definition: ExternalDefinition) -> ExternalTable:
        files = self._objects.resolve(definition.uris, definition.is_manifest)
        last = files[-1]
        schema = _source(definition, last.uri, self._objects.read(last)).fields
        segments: list[Segment] = []
        for file in files:
            content = self._objects.read(file)
            source = _source(definition, file.uri, content)
            source.check(schema)
            rows = source.rows(schema)
            stores_as_is = source.can_be_stored_as_is(schema)
            segments.append(self._batch.adopt(rows, content) if stores_as_is else self._batch.write(rows))
        settings = TableSettings(schema)
        version = TableVersion(1, 0, "external", 0, settings, {WHOLE_TABLE: Partition(tuple(segments), 0)})
        table = TableId("", "", definition.name)
        return ExternalTable(table, version, tuple(file.uri for file in files))


@contextmanager
def open_external_tables(
    definitions: Mapping[str, ExternalDefinition], objects: ObjectStore, segments: SegmentStore, sql: str
) -> Iterator[ExternalTables]:
    """Yield the external tables of the job whose SQL text is `sql`. Their segments are deleted when the block ends."""
    with segments.batch() as batch:
        try:
            yield ExternalTables(definitions, objects, batch, FILE_NAME in sql.upper())
        finally:
            segments.remove(file for file in batch.files if segments.file_path(file).exists())
