"""Defines what a commit changes in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bigquery_standin.bigquery_errors import Invalid
from bigquery_standin.storage.model import (
    BufferedRows,
    ChangeLog,
    CloneDefinition,
    Partition,
    TableId,
    TableSettings,
    TableVersion,
)


@dataclass(frozen=True)
class Change:
    """The content and settings that a table has after a commit.

    `kind`: what changed the table, such as `load` or `merge`. `recreates`: whether the table gets a new creation time,
    as by CREATE OR REPLACE; it then loses its streaming buffer and change log. `modified_partitions`: how many
    partitions the change modified. `buffer`, `change_log`: the streaming buffer and the change log afterwards, None if
    they stay as they are. `replaces_rows`: whether all earlier rows are gone; the change log is then removed.
    """

    kind: str
    settings: TableSettings
    partitions: Mapping[str, Partition]
    clone: CloneDefinition | None = None
    recreates: bool = False
    modified_partitions: int = 0
    buffer: tuple[BufferedRows, ...] | None = None
    change_log: ChangeLog | None = None
    replaces_rows: bool = False

    def buffer_after(self, current: TableVersion | None) -> tuple[BufferedRows, ...]:
        """The streaming buffer after the commit."""
        if self.buffer is not None:
            return self.buffer
        return current.buffer if current and not self.recreates else ()

    def changes_only_log(self, current: TableVersion) -> bool:
        """Whether only the change log changes, and so no row of the table."""
        return self.change_log is not None and self.partitions == current.partitions

    def change_log_after(self, table: TableId, current: TableVersion | None) -> ChangeLog | None:
        """The change log after the commit. Raises Invalid if row changes would be lost before they are applied.

        A change that recreates the table may lose them. The log also ends when all rows are replaced or the primary
        key changes.
        """
        if self.change_log is not None or current is None or self.recreates:
            return self.change_log
        if not (self.replaces_rows or self.settings.primary_key != current.settings.primary_key):
            return current.change_log
        if current.pending_changes:
            raise Invalid(
                f"Table {table} is active with change data capture: its rows cannot all be replaced, nor its primary "
                "key be changed, before the streamed changes are applied. Wait for upsert_stream_apply_watermark."
            )
        return None


# Makes a change from the current version (None: no table) and the commit time in microseconds.
BuildChange = Callable[[TableVersion | None, int], Change]
