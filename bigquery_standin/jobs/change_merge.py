"""Merges a table's pending row changes into its rows, for apply jobs and for queries that cannot wait for such a job.

A table is its stored rows, and after them its changes in the order of acknowledgement. For each key, the change with
the greatest sequence number counts; among equal numbers, the last one. The last applied change of each key stays in the
change log, so that a late change does not undo a newer one. Rows in the streaming buffer stay as they are. Source:
"Stream table updates with change data capture".
"""

from __future__ import annotations

import pyarrow as pa

from bigquery_standin.clock import DAY_US
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import ChangeLog, TableId, TableVersion
from bigquery_standin.storage.segment_store import conform
from bigquery_standin.storage.streamed_rows import CHANGE_TYPE, SEQUENCE_NUMBER, change_columns
from bigquery_standin.storage.version_relation import relation_sql

# How long an applied DELETE is remembered. Source: the same page, deleted data considerations.
DELETE_RETENTION_US = 2 * DAY_US
_ACKNOWLEDGED = "_acknowledged_us"
_POSITION = "_position"  # numbers the pending changes in their order; negative for applied ones


class ChangeMerge:
    """The stored rows of a version, and its change log merged into them."""

    def __init__(
        self, catalog: Catalog, session: DuckDbSession, table: TableId, version: TableVersion, log: ChangeLog
    ) -> None:
        self._session = session
        self._keys = [quote_identifier(name) for name in version.settings.primary_key]
        self._columns = ", ".join(quote_identifier(column.name) for column in version.settings.schema)
        self._stored = relation_sql(table, version, catalog.segments, version.segments())
        self._buffered = relation_sql(table, version, catalog.segments, [rows.segment for rows in version.buffer])
        self._last = self._last_changes(catalog, version, log)
        pending = f"(FROM {self._last} WHERE {_POSITION} >= 0) AS _new"
        self._match = f"{pending} ON {' AND '.join(f'_old.{key} = _new.{key}' for key in self._keys)}"

    def _last_changes(self, catalog: Catalog, version: TableVersion, log: ChangeLog) -> str:
        """The name of a temporary table with the last change of each key."""
        parts = [catalog.segments.read(log.applied)] if log.applied else []
        for streamed in log.pending:
            stored = conform(catalog.segments.read(streamed.segment), change_columns(version))
            times = pa.array([streamed.received_us] * stored.num_rows, pa.int64())
            parts.append(stored.append_column(_ACKNOWLEDGED, times))
        rows = pa.concat_tables(parts, promote_options="default")
        first = -log.applied.rows if log.applied else 0
        positions = pa.array(range(first, first + rows.num_rows), pa.int64())
        changes = self._session.register(rows.append_column(_POSITION, positions))
        return self._session.materialize(
            f"SELECT * FROM {changes} QUALIFY row_number() OVER (PARTITION BY {', '.join(self._keys)} "
            f"ORDER BY {SEQUENCE_NUMBER} DESC NULLS LAST, {_POSITION} DESC) = 1"
        )

    def rows_sql(self, *, with_buffer: bool) -> str:
        """SQL of the rows after the merge. `with_buffer`: also of those in the streaming buffer."""
        merged = f"SELECT _old.* FROM {self._stored} AS _old ANTI JOIN {self._match} UNION ALL {self.upserts_sql()}"
        return f"({merged} UNION ALL SELECT * FROM {self._buffered})" if with_buffer else f"({merged})"

    def removed_sql(self) -> str:
        """SQL of the stored rows that the merge replaces or deletes."""
        return f"SELECT _old.* FROM {self._stored} AS _old SEMI JOIN {self._match}"

    def upserts_sql(self) -> str:
        return f"SELECT {self._columns} FROM {self._last} WHERE {_POSITION} >= 0 AND {CHANGE_TYPE} = 'UPSERT'"

    def applied(self, now_us: int) -> pa.Table:
        """The last change of each key, without DELETEs of more than DELETE_RETENTION_US ago."""
        _, applied = self._session.run(
            f"SELECT {', '.join((*self._keys, CHANGE_TYPE, SEQUENCE_NUMBER, _ACKNOWLEDGED))} FROM {self._last} "
            f"WHERE {CHANGE_TYPE} = 'UPSERT' OR {_ACKNOWLEDGED} > {now_us - DELETE_RETENTION_US} "
            f"ORDER BY {', '.join(self._keys)}"
        )
        return applied
