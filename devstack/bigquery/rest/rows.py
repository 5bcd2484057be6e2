"""Handlers that send rows in pages. A page token names the table's version, so that pages never mix two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from devstack.bigquery.errors import Invalid, NotFound
from devstack.bigquery.rest.call import Answer, Call
from devstack.bigquery.rest.cells import Encode, encode_rows, timestamp_format_of
from devstack.bigquery.rest.resources import etag_of
from devstack.bigquery.rest.tables import table_of
from devstack.bigquery.service import StandIn
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.expiration import without_expired
from devstack.bigquery.storage.model import TableId, TableVersion
from devstack.bigquery.storage.protection import refuse_protected_read
from devstack.bigquery.storage.row_pages import read_page

MAXIMUM_PAGE_ROWS = 50_000
PAGE_BYTES = 10_000_000  # BigQuery's own limit of an answer; wide rows come in shorter pages


@dataclass(frozen=True)
class RowPage:
    rows: list[dict[str, Any]]
    total: int
    next_token: str | None


def list_rows(stand_in: StandIn, call: Call) -> Answer:
    table, partition = table_of(call)
    version = stand_in.catalog.get(table)
    columns = _selected(table, version, call.query.get("selectedFields"))
    found = page_of(stand_in, call, table, columns, timestamp_format_of(call), partition)
    body: dict[str, Any] = {"kind": "bigquery#tableDataList", "totalRows": str(found.total), "rows": found.rows}
    if found.next_token:
        body["pageToken"] = found.next_token
    return Answer(body | {"etag": etag_of({"id": str(table), "version": version.number})})


def page_of(
    stand_in: StandIn,
    call: Call,
    table: TableId,
    columns: Sequence[TableField],
    timestamp: Encode,
    partition: str | None = None,
) -> RowPage:
    """The page that the call's maxResults, startIndex or pageToken ask for."""
    number, start = _position(call)
    with stand_in.catalog.pin_lock:
        version = _version(stand_in, table, number)
        refuse_protected_read(stand_in.catalog, table, version, {column.name for column in columns})
        files = [segment.file for segment in version.segments()]
        stand_in.catalog.segments.hold(files)
    try:
        total = _total(version, partition)
        size = min(call.integer("maxResults", MAXIMUM_PAGE_ROWS) or 0, _page_rows(version))
        names = [column.name for column in columns]
        rows = read_page(stand_in.catalog.segments, version, start, size, names, partition)
    finally:
        stand_in.catalog.segments.release(files)
    following = start + rows.num_rows
    token = f"{version.number}-{following}" if following < total and (rows.num_rows or size == 0) else None
    return RowPage(encode_rows(rows, columns, timestamp), total, token)


def _version(stand_in: StandIn, table: TableId, number: int | None) -> TableVersion:
    if number is None:
        return stand_in.catalog.get(table)
    version = stand_in.catalog.history(table).number(number)
    if version is None or version.dropped:
        raise NotFound(f"Not found: page of {table}: its version [{number}] is gone. Start again at the first page.")
    return without_expired(version, version.committed_us)


def _position(call: Call) -> tuple[int | None, int]:
    token = call.query.get("pageToken")
    if not token:
        return None, call.integer("startIndex") or 0
    number, dash, start = token.partition("-")
    if not (number.isdigit() and dash and start.isdigit()):
        raise Invalid(f"Invalid page token [{token}]: pass the pageToken of the page before.")
    return int(number), int(start)


def _total(version: TableVersion, partition: str | None) -> int:
    if partition is None:
        return version.rows
    part = version.partitions.get(partition)
    return part.rows if part else 0


def _page_rows(version: TableVersion) -> int:
    row_bytes = version.bytes / version.rows if version.rows else 0
    return max(1, min(MAXIMUM_PAGE_ROWS, int(PAGE_BYTES / row_bytes) if row_bytes else MAXIMUM_PAGE_ROWS))


def _selected(table: TableId, version: TableVersion, names: str | None) -> list[TableField]:
    if not names:
        return list(version.settings.schema)
    wanted = {name.strip().lower() for name in names.split(",")}
    found = [column for column in version.settings.schema if column.name.lower() in wanted]
    if len(found) != len(wanted):
        raise Invalid(
            f"selectedFields of {table} is [{names}], expected top-level columns of "
            f"[{', '.join(column.name for column in version.settings.schema)}]."
        )
    return found
