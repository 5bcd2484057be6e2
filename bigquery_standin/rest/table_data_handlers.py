"""Reads rows in pages. A page token names the version of the table, so that all pages come from one version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bigquery_standin.bigquery_errors import Invalid, NotFound
from bigquery_standin.rest.request_response import ApiRequest, ApiResponse
from bigquery_standin.rest.row_encoding import Encode, encode_rows, requested_timestamp_encoder
from bigquery_standin.rest.table_handlers import requested_table
from bigquery_standin.rest.table_resource import etag_of
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.access import check_all_rows, check_columns
from bigquery_standin.storage.arrow_schema import arrow_schema, conform
from bigquery_standin.storage.model import Segment, TableId, TableVersion
from bigquery_standin.storage.partitions import without_expired
from bigquery_standin.storage.segment_store import SegmentStore
from bigquery_standin.storage.table_rules import check_is_partitioned

MAXIMUM_PAGE_ROWS = 50_000
MAXIMUM_PAGE_BYTES = 10_000_000  # BigQuery's limit for a response: so pages of wide rows have fewer rows


@dataclass(frozen=True)
class RowPage:
    """One page of rows.

    `rows`: as the API returns them. `total`: the number of rows of the table or partition. `next_token`: the token of
    the next page; None for the last one.
    """

    rows: list[dict[str, Any]]
    total: int
    next_token: str | None


def list_rows(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    table, partition = requested_table(request)
    version = stand_in.catalog.get(table)
    check_is_partitioned(table, version.settings, partition)
    columns = _selected(table, version, request.query.get("selectedFields"))
    page = read_row_page(stand_in, request, table, columns, requested_timestamp_encoder(request), partition)
    body: dict[str, Any] = {"kind": "bigquery#tableDataList", "totalRows": str(page.total), "rows": page.rows}
    if page.next_token:
        body["pageToken"] = page.next_token
    return ApiResponse(body | {"etag": etag_of({"id": str(table), "version": version.number})})


def read_row_page(
    stand_in: StandIn,
    request: ApiRequest,
    table: TableId,
    columns: Sequence[TableField],
    encode_timestamp: Encode,
    partition: str | None = None,
) -> RowPage:
    """The page that the request's maxResults, startIndex and pageToken describe.

    `partition`: the id of the partition to read; None for the whole table. Raises AccessDenied for
    rows or columns that the caller may not read, Invalid for a wrong parameter, and NotFound if the table, or the
    version of it that the page token names, is gone.
    """
    number, start = _position(request)
    names = [column.name for column in columns]
    with stand_in.catalog.pin(lambda: _version(stand_in, table, number)) as version:
        caller = stand_in.caller(request.user())
        check_all_rows(caller, stand_in.catalog, table, version, "tabledata.list")
        check_columns(caller, table, version, names)
        total = sum(segment.rows for segment in version.segments(partition))
        size = min(request.integer("maxResults", MAXIMUM_PAGE_ROWS) or 0, _maximum_page_rows(version))
        rows = read_page(stand_in.catalog.segments, version, start, size, names, partition)
    following = start + rows.num_rows
    token = f"{version.number}-{following}" if following < total and (rows.num_rows or size == 0) else None
    return RowPage(encode_rows(rows, columns, encode_timestamp), total, token)


def _version(stand_in: StandIn, table: TableId, number: int | None) -> TableVersion:
    """The version with this number, without partitions that had expired when it was committed; the newest for None."""
    if number is None:
        return stand_in.catalog.get(table)
    version = stand_in.catalog.history(table).by_number(number)
    if version is None or version.dropped:
        raise NotFound(f"Not found: page of {table}: its version [{number}] is gone. Start again at the first page.")
    return without_expired(version, version.committed_us)


def _position(request: ApiRequest) -> tuple[int | None, int]:
    """The version number in the page token, None without a token; and the number of the page's first row."""
    token = request.query.get("pageToken")
    if not token:
        return None, request.integer("startIndex") or 0
    number, dash, start = token.partition("-")
    if not (number.isdigit() and dash and start.isdigit()):
        raise Invalid(f"Invalid page token [{token}]: pass the pageToken of the page before.")
    return int(number), int(start)


def _maximum_page_rows(version: TableVersion) -> int:
    """How many rows of average size are below both limits of a page; at least 1."""
    row_bytes = version.bytes / version.rows if version.rows else 0
    return max(1, min(MAXIMUM_PAGE_ROWS, int(MAXIMUM_PAGE_BYTES / row_bytes) if row_bytes else MAXIMUM_PAGE_ROWS))


def _selected(table: TableId, version: TableVersion, names: str | None) -> list[TableField]:
    if not names:
        return list(version.settings.schema)
    selected = {name.strip().lower() for name in names.split(",")}
    columns = [column for column in version.settings.schema if column.name.lower() in selected]
    if len(columns) != len(selected):
        raise Invalid(
            f"selectedFields of {table} is [{names}], expected top-level columns of "
            f"[{', '.join(column.name for column in version.settings.schema)}]."
        )
    return columns


def read_page(
    store: SegmentStore, version: TableVersion, start: int, count: int, columns: Sequence[str], partition: str | None
) -> pa.Table:
    """Up to `count` rows from `start` on, ordered by partition, segment and position in the file.

    Rows in the streaming buffer are left out, and `start` counts the others from 0.
    `columns`: the names of the columns to read. `partition`: the only partition to read; None for all.
    """
    schema = [column for column in version.settings.schema if column.name in columns]
    parts = [arrow_schema(schema).empty_table()]
    for segment in version.segments(partition):
        if count <= 0:
            break
        if start >= segment.rows:
            start -= segment.rows
            continue
        page = _read_rows(store, segment, [column.name for column in schema], start, count)
        parts.append(conform(page, schema))
        count -= page.num_rows
        start = 0
    return pa.concat_tables(parts)


def _read_rows(store: SegmentStore, segment: Segment, columns: list[str], start: int, count: int) -> pa.Table:
    """Reads only the row groups that contain the page."""
    with pq.ParquetFile(store.path(segment)) as file:
        groups, skipped, first = [], 0, 0
        for number in range(file.num_row_groups):
            rows = file.metadata.row_group(number).num_rows
            if first + rows <= start:
                skipped += rows
            elif first < start + count:
                groups.append(number)
            first += rows
        return file.read_row_groups(groups, columns=columns).slice(start - skipped, count)
