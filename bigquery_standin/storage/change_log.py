"""Adds streamed upserts and deletes of rows to a table's change log, for change data capture.

Apply jobs, which run in the background, merge the changes into the table's rows. Queries merge them into what they
read. Source: BigQuery's page "Stream table updates with change data capture".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery, NotFound
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.interval_values import interval_microseconds
from bigquery_standin.storage.access import Caller, check_all_rows, check_columns
from bigquery_standin.storage.arrow_schema import arrow_schema, conform
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import ChangeLog, PendingChanges, TableId, TableVersion
from bigquery_standin.storage.quotas import STREAMED
from bigquery_standin.storage.table_change import Change

CHANGE_TYPE, SEQUENCE_NUMBER = "_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"
# The columns that a change has besides those of the table.
CHANGE_COLUMNS = (TableField(CHANGE_TYPE, "STRING"), TableField(SEQUENCE_NUMBER, "STRING"))
MAXIMUM_COLUMNS = 2_000
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


def sortable_sequence_number(number: str) -> str:
    """The sequence number as a text that sorts as the number does. A missing section counts as 0."""
    sections = [section.upper().zfill(_SECTION_LENGTH) for section in number.split("/")]
    return "/".join(sections + ["0" * _SECTION_LENGTH] * (_SECTIONS - len(sections)))


def append_changes(catalog: Catalog, caller: Caller, table: TableId, changes: Sequence[WrittenRow]) -> TableVersion:
    """Appends the changes to the table's change log, and returns the new version; without changes the current one.

    Raises NotFound if there is no such table; AccessDenied if the caller may not read all rows, or not the primary key;
    Invalid if the table takes no changes, or if some changes, earlier or new, have a sequence number and others have
    none; and InvalidRows if some changes are wrong. In all these cases no change is stored.
    """
    if not changes:
        return catalog.get(table)
    with catalog.segments.batch() as batch:

        def build(current: TableVersion | None, commit_us: int) -> Change:
            if current is None:
                raise NotFound(f"Not found: Table {table}")
            _check_table(caller, catalog, table, current)
            log = current.change_log
            has_sequences = _has_sequences(changes)
            if log is not None and log.has_sequences != has_sequences:
                raise _mixed_sequences()
            pending = PendingChanges(batch.write(_change_rows(table, current, changes)), commit_us)
            new_log = ChangeLog(
                (*(log.pending if log else ()), pending),
                commit_us,
                has_sequences,
                log.applied if log else None,
                log.watermark_us if log else None,
            )
            return Change(STREAMED, current.settings, current.partitions, current.clone, change_log=new_log)

        return catalog.commit(table, build)


def needs_runtime_merge(version: TableVersion, moment_us: int) -> bool:
    """Whether the rows are staler than max_staleness allows, so that a query must merge the pending changes itself."""
    if version.change_log is None or not version.pending_changes:
        return False
    limit_us = max_staleness_us(version)
    return limit_us == 0 or moment_us - stale_since_us(version.change_log) > limit_us


def check_fresh_enough_to_clone(table: TableId, version: TableVersion, now_us: int) -> None:
    """Raises Invalid if a table cannot be cloned, because it is staler than its max_staleness allows."""
    if needs_runtime_merge(version, now_us):
        raise stale_source_error(table)


def stale_source_error(table: TableId) -> Invalid:
    return Invalid(
        f"Table {table} cannot be cloned: it is active with change data capture, and its rows are more stale than its "
        "max_staleness allows. Wait until upsert_stream_apply_watermark has passed the last change, or set a higher "
        "max_staleness."
    )


def check_no_pending_changes(table: TableId, version: TableVersion) -> None:
    """Raises InvalidQuery for a statement that would change existing rows, if the table has pending changes."""
    if version.pending_changes:
        raise InvalidQuery(
            f"UPDATE, DELETE, MERGE and TRUNCATE TABLE statements are not supported over table {table}, which is "
            "active with change data capture: wait until the streamed changes are applied"
        )


def max_staleness_us(version: TableVersion) -> int:
    """The table's max_staleness in microseconds; 0 if it has none."""
    return interval_microseconds(version.settings.max_staleness) if version.settings.max_staleness else 0


def stale_since_us(log: ChangeLog) -> int:
    """Since when the table's rows may lack changes: the oldest pending change, else the watermark, else 0."""
    return max(log.watermark_us or 0, log.pending[0].acknowledged_us if log.pending else 0)


def change_columns(version: TableVersion) -> tuple[TableField, ...]:
    """The columns of a segment with pending changes. None is REQUIRED: a DELETE needs only the primary key."""
    schema = version.settings.schema
    nullable = (replace(column, mode="NULLABLE") if column.mode == "REQUIRED" else column for column in schema)
    return (*nullable, *CHANGE_COLUMNS)


def _check_table(caller: Caller, catalog: Catalog, table: TableId, version: TableVersion) -> None:
    settings = version.settings
    if not settings.primary_key:
        raise Invalid(
            f"Change data capture needs a primary key, and table {table} has none: add PRIMARY KEY (…) NOT ENFORCED."
        )
    if len(settings.schema) > MAXIMUM_COLUMNS:
        raise Invalid(
            f"Change data capture takes tables of at most [{MAXIMUM_COLUMNS}] columns: {table} has "
            f"[{len(settings.schema)}]."
        )
    check_all_rows(caller, catalog, table, version, "Change data capture")
    check_columns(caller, table, version, settings.primary_key)


def _change_rows(table: TableId, version: TableVersion, changes: Sequence[WrittenRow]) -> pa.Table:
    problems = {position: problem for position, change in enumerate(changes) if (problem := _problem(version, change))}
    if problems:
        raise InvalidRows(problems)
    rows = [
        {
            **change.values,
            CHANGE_TYPE: change.change_type,
            SEQUENCE_NUMBER: change.sequence_number and sortable_sequence_number(change.sequence_number),
        }
        for change in changes
    ]
    columns = change_columns(version)
    try:
        return conform(pa.Table.from_pylist(rows, schema=arrow_schema(columns)), columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise Invalid(f"A row cannot be stored in table {table}: {error}") from error


def _problem(version: TableVersion, change: WrittenRow) -> str | None:
    if change.change_type not in ("UPSERT", "DELETE"):
        return INVALID_CHANGE_TYPE
    if change.sequence_number is not None and not _SEQUENCE_NUMBER.fullmatch(change.sequence_number):
        return (
            f"{SEQUENCE_NUMBER} is [{change.sequence_number}], expected one to four sections of 1 to 16 hexadecimal "
            "digits, separated by slashes"
        )
    for name in version.settings.primary_key:
        if change.values.get(name) is None:
            return f"Field {name} of the primary key has no value"
    return _unfitting_value(version, change)


def _unfitting_value(version: TableVersion, change: WrittenRow) -> str | None:
    """The error of the first value that does not fit its column's type, such as STRING(3); None without any."""
    for name, value in change.values.items():
        column = version.settings.column(name)
        try:
            if column is not None:
                column.stored_value(value)
        except ValueError as error:
            return f"Field {name}: {error}"
    return None


def _has_sequences(changes: Sequence[WrittenRow]) -> bool:
    with_sequence = {change.sequence_number is not None for change in changes}
    if len(with_sequence) > 1:
        raise _mixed_sequences()
    return with_sequence == {True}


def _mixed_sequences() -> Invalid:
    return Invalid(
        f"Some changes of the table have a {SEQUENCE_NUMBER} and others have none: their order would be unpredictable. "
        "Send it with every change."
    )
