"""Adds streamed rows to a table: plain rows to its streaming buffer, row changes to its change log.

Queries see plain rows at once. Clones, copies, extract jobs, tabledata.list and the table's sizes include them only
when they are in the partitions, some minutes later. Row changes are upserts and deletes, for change data capture: apply
jobs merge them into the table's rows, and queries into what they read. Sources, in BigQuery's documentation: "Use the
Storage Write API (REST)", stream data availability; "Introduction to table clones", limitations; "Stream table updates
with change data capture".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid, NotFound
from bigquery_standin.clock import MICROSECONDS
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.storage.access import Caller, check_all_rows, check_columns
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import (
    ChangeLog,
    Partition,
    Segment,
    StreamedRows,
    TableId,
    TableSettings,
    TableVersion,
)
from bigquery_standin.storage.partitions import split_rows
from bigquery_standin.storage.segment_store import arrow_schema, conform
from bigquery_standin.storage.table_history import Change

# How long rows stay in the buffer. BigQuery states no limit: usually it is some minutes, in rare cases 90.
BUFFER_US = 5 * 60 * MICROSECONDS


def stream_rows(catalog: Catalog, table: TableId, rows_of: Callable[[TableSettings], pa.Table]) -> None:
    """Adds rows to the table's buffer. `rows_of` makes them for the table's settings.

    Raises NotFound if the table does not exist.
    """
    with catalog.writing(table):
        current, commit_us = catalog.get(table), catalog.next_us(table)
        rows = StreamedRows(catalog.segments.write(rows_of(current.settings)), commit_us)
        buffer = (*current.buffer, rows)
        catalog.commit(table, Change(current.settings, current.partitions, commit_us, current.clone, buffer=buffer))


def flush_buffers(catalog: Catalog) -> None:
    """Moves the rows that were in a buffer for long enough to their partitions."""
    for table, _ in catalog.histories():
        version = catalog.find(table)
        if version is not None and _segments_due(version, catalog.clock.now_us()):
            with suppress(NotFound):  # the table was dropped meanwhile, or its dataset
                _flush(catalog, table)


def _flush(catalog: Catalog, table: TableId) -> None:
    with catalog.writing(table):
        current, commit_us = catalog.get(table), catalog.next_us(table)
        due = _segments_due(current, commit_us)
        streamed = catalog.segments.read_all(due, current.settings.schema)
        partitions = dict(current.partitions)
        for key, rows in split_rows(streamed, current.settings):
            partitions[key] = Partition((*current.segments(key), catalog.segments.write(rows)), commit_us)
        files = {segment.file for segment in due}
        remaining = tuple(rows for rows in current.buffer if rows.segment.file not in files)
        catalog.commit(table, Change(current.settings, partitions, commit_us, current.clone, buffer=remaining))


def _segments_due(version: TableVersion, now_us: int) -> list[Segment]:
    return [rows.segment for rows in version.buffer if now_us - rows.received_us >= BUFFER_US]


CHANGE_TYPE, SEQUENCE_NUMBER = "_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"
_CHANGE_COLUMNS = (TableField(CHANGE_TYPE, "STRING"), TableField(SEQUENCE_NUMBER, "STRING"))
INVALID_CHANGE_TYPE = "The given value is not a valid CHANGE_TYPE"
_SEQUENCE_NUMBER = re.compile(r"[0-9A-Fa-f]{1,16}(/[0-9A-Fa-f]{1,16}){0,3}")
_SECTIONS, _SECTION_LENGTH = 4, 16  # of a sequence number: how many at most, and how many hexadecimal digits each


@dataclass(frozen=True)
class WrittenRow:
    """One row of a request: its values by column name, and its `_CHANGE_TYPE` and `_CHANGE_SEQUENCE_NUMBER`, if any.

    A change is an UPSERT, with the whole row, or a DELETE, with its primary key.
    """

    values: dict[str, Any]
    change_type: str | None
    sequence_number: str | None


class InvalidRows(Invalid):
    """Rows of a request are wrong. `rows`: what is wrong with each of them, by its position in the request."""

    def __init__(self, rows: Mapping[int, str]) -> None:
        first = min(rows)
        super().__init__(f"[{len(rows)}] of the rows cannot be taken, row [{first}]: {rows[first]}")
        self.rows = rows


def are_row_changes(change_types: Sequence[str | None], earlier: bool | None) -> bool:
    """Whether the rows of a request are row changes. Raises Invalid if a connection mixes row changes and plain rows.

    `change_types`: the _CHANGE_TYPE of each row, None for a row without one. `earlier`: the result for earlier
    requests of the connection; None if there were none.
    """
    results = {change_type not in (None, "", "INSERT") for change_type in change_types}
    if earlier is not None:
        results.add(earlier)
    if len(results) > 1:
        raise Invalid(INVALID_CHANGE_TYPE)
    return results == {True}


def append_changes(catalog: Catalog, caller: Caller, table: TableId, changes: Sequence[WrittenRow]) -> None:
    """Appends the changes to the table's change log.

    Raises NotFound if there is no such table; AccessDenied if the caller may not read all rows, or not the primary key;
    Invalid if the table takes no changes, or if some changes, earlier or new, have a sequence number and others have
    none; and InvalidRows if some changes are wrong. In all these cases no change is stored.
    """
    with catalog.writing(table):
        current, commit_us = catalog.get(table), catalog.next_us(table)
        if not current.settings.primary_key:
            raise Invalid(
                f"Change data capture needs a primary key, and table {table} has none: add PRIMARY KEY (…) NOT "
                "ENFORCED."
            )
        check_all_rows(caller, catalog, table, current, "Change data capture")
        check_columns(caller, table, current, current.settings.primary_key)
        log, numbered = current.change_log, {change.sequence_number is not None for change in changes}
        if len(numbered | ({log.has_sequences} if log else set())) > 1:
            raise Invalid(
                f"Some changes of the table have a {SEQUENCE_NUMBER} and others have none: their order would be "
                "unpredictable. Send it with every change."
            )
        rows = StreamedRows(catalog.segments.write(_change_rows(table, current, changes)), commit_us)
        log = log or ChangeLog((), commit_us, has_sequences=True in numbered)
        log = replace(log, pending=(*log.pending, rows), acknowledged_us=commit_us)
        catalog.commit(table, Change(current.settings, current.partitions, commit_us, current.clone, change_log=log))


def needs_runtime_merge(version: TableVersion, moment_us: int) -> bool:
    """Whether the rows are staler than max_staleness allows, so that a query must merge the pending changes itself."""
    if version.change_log is None or not version.change_log.pending:
        return False
    limit_us = (version.settings.max_staleness_s or 0) * MICROSECONDS
    return limit_us == 0 or moment_us - version.change_log.stale_since_us > limit_us


def change_columns(version: TableVersion) -> tuple[TableField, ...]:
    """The columns of a segment with pending changes. None is REQUIRED: a DELETE needs only the primary key."""
    schema = version.settings.schema
    nullable = (replace(column, mode="NULLABLE") if column.mode == "REQUIRED" else column for column in schema)
    return (*nullable, *_CHANGE_COLUMNS)


def _change_rows(table: TableId, version: TableVersion, changes: Sequence[WrittenRow]) -> pa.Table:
    problems = {position: problem for position, change in enumerate(changes) if (problem := _problem(version, change))}
    if problems:
        raise InvalidRows(problems)
    rows = [
        {
            **change.values,
            CHANGE_TYPE: change.change_type,
            SEQUENCE_NUMBER: change.sequence_number and _sortable(change.sequence_number),
        }
        for change in changes
    ]
    columns = change_columns(version)
    try:
        return conform(pa.Table.from_pylist(rows, schema=arrow_schema(columns)), columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise Invalid(f"A row cannot be stored in table {table}: {error}") from error


def _sortable(number: str) -> str:
    """The sequence number as a text that sorts as the number does. A missing section counts as 0."""
    sections = [section.upper().zfill(_SECTION_LENGTH) for section in number.split("/")]
    return "/".join(sections + ["0" * _SECTION_LENGTH] * (_SECTIONS - len(sections)))


def _problem(version: TableVersion, change: WrittenRow) -> str | None:
    """What is wrong with the change; None if nothing is."""
    if change.change_type not in ("UPSERT", "DELETE"):
        return INVALID_CHANGE_TYPE
    if change.sequence_number is not None and not _SEQUENCE_NUMBER.fullmatch(change.sequence_number):
        return (
            f"{SEQUENCE_NUMBER} is [{change.sequence_number}], expected one to four sections of 1 to 16 hexadecimal "
            "digits, separated by slashes"
        )
    missing = [name for name in version.settings.primary_key if change.values.get(name) is None]
    return f"Field {missing[0]} of the primary key has no value" if missing else None
