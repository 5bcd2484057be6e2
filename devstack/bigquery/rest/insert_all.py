"""Handles tabledata.insertAll: streams the rows of one request into a table's buffer.

Sources: REST method tabledata.insertAll; "Use the Storage Write API (REST)"; "Quotas and limits", streaming inserts.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from devstack.bigquery.bigquery_errors import Invalid, NotImplementedConstruct
from devstack.bigquery.jobs.json_rows import parse_record
from devstack.bigquery.rest.request_response import ApiRequest, ApiResponse
from devstack.bigquery.rest.table_handlers import requested_table
from devstack.bigquery.stand_in import StandIn
from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.model import BufferedRows, TableId, TableSettings, TableVersion
from devstack.bigquery.storage.segment_store import SegmentBatch
from devstack.bigquery.storage.streaming_buffer import check_day, recent_insert_ids, stream_rows

MAXIMUM_REQUEST_BYTES = 10_000_000  # also BigQuery's limit for one row, which is therefore not checked
MAXIMUM_ROWS = 50_000
MAXIMUM_INSERT_ID_CHARACTERS = 128


@dataclass(frozen=True)
class _Row:
    insert_id: str | None
    values: dict[str, Any]


def insert_all(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    table, partition = requested_table(request)
    if partition is not None:
        raise NotImplementedConstruct(f"streaming into the partition {table.table}${partition}")
    _check_limits(request)
    body = request.body
    settings = stand_in.catalog.get(table).settings
    ignores_unknown, skips_invalid = _flag(body, "ignoreUnknownValues"), _flag(body, "skipInvalidRows")
    rows, failures = _parse(settings, body["rows"], ignores_unknown, stand_in.clock.now_us())
    if not failures or skips_invalid:
        _stream(stand_in, table, settings, rows)
    errors = [
        {"index": index, "errors": [_error(failures.get(index))]}
        for index in range(len(body["rows"]))
        if failures and (index in failures or not skips_invalid)
    ]
    response: dict[str, Any] = {"kind": "bigquery#tableDataInsertAllResponse"}
    return ApiResponse(response | ({"insertErrors": errors} if errors else {}))


def _check_limits(request: ApiRequest) -> None:
    rows = request.body.get("rows") or []
    if not rows:
        raise Invalid("No rows present in the request.")
    if len(rows) > MAXIMUM_ROWS:
        raise Invalid(f"Too many rows present in the request, limit: {MAXIMUM_ROWS} row count: {len(rows)}.")
    size = int(request.headers.get("content-length") or len(json.dumps(request.body)))
    if size > MAXIMUM_REQUEST_BYTES:
        raise Invalid(f"Request payload size exceeds the limit: {MAXIMUM_REQUEST_BYTES} bytes, found {size}.")
    for row in rows:
        if len(row.get("insertId") or "") > MAXIMUM_INSERT_ID_CHARACTERS:
            raise Invalid(f"insertId [{row['insertId']}] has more than {MAXIMUM_INSERT_ID_CHARACTERS} characters.")


def _flag(body: Mapping[str, Any], name: str) -> bool:
    return str(body.get(name)).lower() == "true"


def _parse(
    settings: TableSettings, rows: Sequence[Mapping[str, Any]], ignores_unknown: bool, now_us: int
) -> tuple[list[_Row], dict[int, str]]:
    """The valid rows; and by position in the request, what is wrong with each invalid row."""
    parsed, failures = [], {}
    schema = arrow_schema(settings.schema)
    for index, row in enumerate(rows):
        document = json.loads(json.dumps(row.get("json") or {}), parse_float=Decimal)
        try:
            values = parse_record(document, settings.schema, ignores_unknown=ignores_unknown)
            for column in settings.schema:
                if column.mode == "REQUIRED" and values[column.name] is None:
                    raise ValueError(f"Missing required field: {column.name}")
            values = {column.name: column.stored_value(values[column.name]) for column in settings.schema}
            check_day(settings, values, now_us)
            pa.Table.from_pylist([values], schema=schema)  # refuses numbers that are too large
        except (ValueError, InvalidOperation, OverflowError, binascii.Error) as error:
            failures[index] = str(error)
        else:
            parsed.append(_Row(row.get("insertId"), values))
    return parsed, failures


def _stream(stand_in: StandIn, table: TableId, settings: TableSettings, rows: Sequence[_Row]) -> None:
    """Adds the rows to the table's buffer, without repeated ones.

    A row is repeated if its insertId is that of an earlier row of the request or of a row of the last minute.
    """

    def make_rows(version: TableVersion, commit_us: int, batch: SegmentBatch) -> list[BufferedRows]:
        if version.settings.schema != settings.schema:
            raise Invalid(f"Table {table} changed its schema while rows were streamed: send the request again.")
        seen_ids, new_rows = recent_insert_ids(version, commit_us), []
        for row in rows:
            if row.insert_id is None or row.insert_id not in seen_ids:
                new_rows.append(row)
            if row.insert_id is not None:
                seen_ids.add(row.insert_id)
        if not new_rows:
            return []
        values = pa.Table.from_pylist([row.values for row in new_rows], schema=arrow_schema(settings.schema))
        insert_ids = tuple(row.insert_id for row in new_rows if row.insert_id is not None)
        return [BufferedRows(batch.write(values), commit_us, by_insert_all=True, insert_ids=insert_ids)]

    stream_rows(stand_in.catalog, table, make_rows)


def _error(message: str | None) -> dict[str, str]:
    """The error of a row. `message`: what is wrong with it; None if it is not written because another row is wrong."""
    if message is None:
        return {"reason": "stopped", "location": "", "debugInfo": "", "message": ""}
    return {"reason": "invalid", "location": "", "debugInfo": "", "message": message}
