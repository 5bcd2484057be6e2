"""Temporary external tables of a query job: files of the object store that the job's SQL reads under a name.

A definition becomes a table version of its own, whose segments live as long as the job, so that reading, counting of
bytes and time limits are those of any table. The pseudo column `_FILE_NAME` tells each row's source URI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from devstack.bigquery.errors import Invalid, NotImplementedConstruct
from devstack.bigquery.jobs.load_request import FILE_SET_SPECS, MANIFEST, MAXIMUM_URIS, choose
from devstack.bigquery.jobs.parquet_rows import ParquetSource
from devstack.bigquery.jobs.source_files import ObjectStore
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.model import WHOLE, Partition, Segment, TableId, TableSettings, TableVersion
from devstack.bigquery.storage.segments import Batch, SegmentStore

EXTERNAL_FORMATS = ("PARQUET",)
FILE_NAME = "_FILE_NAME"
# What a client may say of an external table here; any other field is refused by name.
DEFINITION_FIELDS = ("sourceFormat", "sourceUris", "fileSetSpecType", "schema", "parquetOptions")
_SILENT_VALUES: tuple[object, ...] = (None, False, "", [], {}, 0, "0")


@dataclass(frozen=True)
class ExternalDefinition:
    """`schema` None means that of the alphabetically last file, as in a load job."""

    name: str
    uris: tuple[str, ...]
    is_manifest: bool
    schema: tuple[TableField, ...] | None
    list_inference: bool


@dataclass(frozen=True)
class ExternalTable:
    """`uris` are those of the segments, in their order."""

    table: TableId
    version: TableVersion
    uris: tuple[str, ...]


def parse_definitions(definitions: Mapping[str, Any]) -> dict[str, ExternalDefinition]:
    """`configuration.query.tableDefinitions` by lower-case name.

    Raises Invalid for what BigQuery refuses, NotImplementedConstruct for what only the stand-in does.
    """
    found: dict[str, ExternalDefinition] = {}
    for name, definition in definitions.items():
        if name.lower() in found:
            raise Invalid(f"Table definition [{name}] is given twice: names do not differ by case.")
        found[name.lower()] = _definition(name, definition)
    return found


def _definition(name: str, definition: Mapping[str, Any]) -> ExternalDefinition:
    for key, value in definition.items():
        if key not in DEFINITION_FIELDS and value not in _SILENT_VALUES:
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
    for key, value in options.items():
        if value not in _SILENT_VALUES:
            raise NotImplementedConstruct(f"tableDefinitions.{name}.parquetOptions.{key}")
    fields = (definition.get("schema") or {}).get("fields")
    spec = choose("fileSetSpecType", definition.get("fileSetSpecType"), FILE_SET_SPECS, FILE_SET_SPECS[0])
    return ExternalDefinition(
        name=name,
        uris=uris,
        is_manifest=spec == MANIFEST,
        schema=tuple(TableField.from_api(field) for field in fields) if fields else None,
        list_inference=list_inference,
    )


class ExternalTables:
    """The external tables of one job; each is read from the object store once, at its first mention."""

    def __init__(
        self,
        definitions: Mapping[str, ExternalDefinition],
        objects: ObjectStore,
        segments: SegmentStore,
        batch: Batch,
        shows_file_name: bool,
    ) -> None:
        self._definitions = definitions
        self._objects = objects
        self._segments = segments
        self._batch = batch
        self.shows_file_name = shows_file_name
        self._opened: dict[str, ExternalTable] = {}

    @property
    def with_file_name(self) -> frozenset[str]:
        """Lower-case names of the tables that have the pseudo column: all where the job's text speaks of it."""
        return frozenset(self._definitions) if self.shows_file_name else frozenset()

    def open(self, name: str) -> ExternalTable | None:
        """None when the job defines no table of this name."""
        definition = self._definitions.get(name.lower())
        if definition is None:
            return None
        if name.lower() not in self._opened:
            self._opened[name.lower()] = self._read(definition)
        return self._opened[name.lower()]

    @staticmethod
    def file_names(external: ExternalTable) -> pa.Table:
        """Number of each segment and the URI that it was read from."""
        numbers = pa.array(range(len(external.uris)), pa.int64())
        return pa.table({"number": numbers, "uri": pa.array(external.uris, pa.string())})

    def _read(self, definition: ExternalDefinition) -> ExternalTable:
        files = self._objects.resolve(definition.uris, definition.is_manifest)
        if not files:
            raise Invalid(f"Table {definition.name} has no source file: its manifest is empty.")
        schema = definition.schema
        if schema is None:
            last = files[-1]
            schema = ParquetSource(last.uri, self._objects.read(last), definition.list_inference).fields
        found: list[tuple[Segment, str]] = []
        for file in files:
            content = self._objects.read(file)
            source = ParquetSource(file.uri, content, definition.list_inference)
            source.check(schema)
            rows = source.rows(schema)
            adopts = source.can_be_adopted(schema)
            found.append((self._batch.adopt(rows, content) if adopts else self._batch.write(rows), file.uri))
        settings = TableSettings(schema)
        partition = Partition(tuple(segment for segment, _ in found), 0)
        version = TableVersion(1, 0, "external", 0, settings, {WHOLE: partition})
        table = TableId("", "", definition.name)
        return ExternalTable(table, version, tuple(uri for _, uri in found))


@contextmanager
def external_tables(
    definitions: Mapping[str, ExternalDefinition], objects: ObjectStore, segments: SegmentStore, text: str
) -> Iterator[ExternalTables]:
    """The rows that were read stay on disk until the block ends. `text` is the job's SQL."""
    with segments.batch() as batch:
        try:
            yield ExternalTables(definitions, objects, segments, batch, FILE_NAME in text.upper())
        finally:
            segments.remove(file for file in batch.files if segments.new_path(file).exists())
