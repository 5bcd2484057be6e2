"""Extract jobs: one version of a table, or of one of its partitions, as Parquet files in the object store."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from devstack.bigquery.errors import Invalid
from devstack.bigquery.jobs.extract_request import ExtractRequest, parse_extract
from devstack.bigquery.jobs.runner import JobContext
from devstack.bigquery.jobs.source_files import ObjectStore
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.arrow_schema import arrow_schema, conform
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import Segment, TableVersion
from devstack.bigquery.storage.protection import refuse_protected_read

# Source: "Export table data", limitations: at most one GB of table data in a file.
ONE_FILE_BYTES = 1 << 30
SHARD_BYTES = 256 << 20  # how much BigQuery puts in a file of several is not documented


class ExtractWork:
    def __init__(self, catalog: Catalog, objects: ObjectStore) -> None:
        self._catalog = catalog
        self._objects = objects

    def __call__(self, context: JobContext) -> Mapping[str, Any]:
        request = parse_extract(context.record.configuration["extract"])
        with self._catalog.pinned(request.table) as version:
            refuse_protected_read(self._catalog, request.table, version)
            segments = _segments(request, version)
            size = sum(segment.bytes for segment in segments)
            files = 0
            for files, rows in enumerate(self._files(request, version, segments, size), start=1):
                context.check_cancelled()
                self._objects.write(request.uri.replace("*", f"{files - 1:012d}"), _parquet(rows, request.compression))
        return {"extract": {"destinationUriFileCounts": [str(files)], "inputBytes": str(size)}}

    def _files(
        self, request: ExtractRequest, version: TableVersion, segments: Sequence[Segment], size: int
    ) -> Iterator[pa.Table]:
        """A table without rows makes one file without rows."""
        if "*" not in request.uri and size > ONE_FILE_BYTES:
            raise Invalid(
                f"Table {request.table} too large to be exported to a single file: [{size}] bytes, allowed "
                f"[{ONE_FILE_BYTES}]. Specify a uri including a * to shard export."
            )
        limit = SHARD_BYTES if "*" in request.uri else ONE_FILE_BYTES
        schema = version.settings.schema
        shards = _shards(segments, limit) or [[]]
        for shard in shards:
            parts = [conform(pq.read_table(self._catalog.segments.path(part)), schema) for part in shard]
            yield _exported(pa.concat_tables([arrow_schema(schema).empty_table(), *parts]), schema)


def _segments(request: ExtractRequest, version: TableVersion) -> Sequence[Segment]:
    if request.partition is None:
        return version.segments()
    if version.settings.partition_column is None:
        raise Invalid(f"Table {request.table} is not partitioned: leave [${request.partition}] out.")
    found = version.partitions.get(request.partition)
    return found.segments if found is not None else ()


def _shards(segments: Sequence[Segment], limit: int) -> list[list[Segment]]:
    """Segments in order, as many to a file as fit."""
    shards: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if not shards or size + segment.bytes > limit:
            shards.append([])
            size = 0
        shards[-1].append(segment)
        size += segment.bytes
    return shards


def _exported(rows: pa.Table, schema: Sequence[TableField]) -> pa.Table:
    """REQUIRED columns are required in the file too; the values are in the export's types already.

    Source: "Export table data", Parquet export: DATE, NUMERIC as decimal(38, 9), TIMESTAMP in microseconds of UTC.
    """
    fields = [pa.field(found.name, found.type, column.mode != "REQUIRED")
              for found, column in zip(rows.schema, schema, strict=True)]  # fmt: skip
    return rows.cast(pa.schema(fields))


def _parquet(rows: pa.Table, compression: str) -> bytes:
    content = io.BytesIO()
    pq.write_table(rows, content, compression=compression.lower(), use_compliant_nested_type=True)
    return content.getvalue()
