"""Runs extract jobs, which write a table or one of its partitions to the object store as Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid
from bigquery_standin.jobs.job_configuration import ExtractConfiguration, parse_extract_configuration
from bigquery_standin.jobs.job_runner import JobContext
from bigquery_standin.jobs.object_store import ObjectStore
from bigquery_standin.jobs.parquet_export import export_parquet
from bigquery_standin.storage.callers import Caller, Grants
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import Segment, TableVersion
from bigquery_standin.storage.protection import check_read
from bigquery_standin.storage.table_rules import check_is_partitioned

# Source: "Export table data", limitations: at most one GB of table data in a file.
MAXIMUM_FILE_BYTES = 1 << 30
MAXIMUM_SHARD_BYTES = 256 << 20  # of table data in a file if the URI has a `*`; BigQuery documents no size


class ExtractJob:
    """Runs extract jobs."""

    def __init__(self, catalog: Catalog, objects: ObjectStore, grants: Grants) -> None:
        self._catalog = catalog
        self._objects = objects
        self._grants = grants

    def __call__(self, context: JobContext) -> Mapping[str, Any]:
        config = parse_extract_configuration(context.record.configuration["extract"])
        with self._catalog.pinned(config.table) as version:
            check_read(Caller(context.record.user, self._grants), self._catalog, config.table, version)
            check_is_partitioned(config.table, version.settings, config.partition)
            segments = version.segments(config.partition)
            size = sum(segment.bytes for segment in segments)
            file_count = 0
            for file_count, rows in enumerate(self._files(config, version, segments, size), start=1):
                context.check_cancelled()
                content = export_parquet(rows, version.settings.schema, config.compression)
                self._objects.write(config.uri.replace("*", f"{file_count - 1:012d}"), content)
        return {"extract": {"destinationUriFileCounts": [str(file_count)], "inputBytes": str(size)}}

    def _files(
        self, config: ExtractConfiguration, version: TableVersion, segments: Sequence[Segment], size: int
    ) -> Iterator[pa.Table]:
        """The rows of each file; an empty table becomes one empty file. `size`: the bytes of all segments.

        Raises Invalid if `size` is too large for one file and the URI has no `*`.
        """
        if "*" not in config.uri and size > MAXIMUM_FILE_BYTES:
            raise Invalid(
                f"Table {config.table} too large to be exported to a single file: [{size}] bytes, allowed "
                f"[{MAXIMUM_FILE_BYTES}]. Specify a uri including a * to shard export."
            )
        maximum_bytes = MAXIMUM_SHARD_BYTES if "*" in config.uri else MAXIMUM_FILE_BYTES
        schema = version.settings.schema
        for shard in _shards(segments, maximum_bytes) or [[]]:
            yield self._catalog.segments.read_all(shard, schema)


def _shards(segments: Sequence[Segment], maximum_bytes: int) -> list[list[Segment]]:
    """The segments in order, in groups of at most `maximum_bytes`, or of one larger segment."""
    shards: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if not shards or size + segment.bytes > maximum_bytes:
            shards.append([])
            size = 0
        shards[-1].append(segment)
        size += segment.bytes
    return shards
