"""Merges a table's pending row changes into its rows, for apply jobs and for queries that cannot wait for such a job.

A table is its stored rows, and after them its changes in the order of acknowledgement. For each key, the change with
the greatest sequence number counts; among equal numbers, the last one. The last applied change of each key stays in the
change log, so that a late change does not undo a newer one. Source: "Stream table updates with change data capture".
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from bigquery_standin.clock import DAY_US
from bigquery_standin.jobs.dml_commit import (
    PartitionWrites,
    RowChanges,
    affected_partitions,
    dml_change,
    write_partitions,
)
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import Segment, TableId, TableVersion
from bigquery_standin.storage.partitions import without_expired
from bigquery_standin.storage.segment_store import WriteRows, conform
from bigquery_standin.storage.streamed_rows import CHANGE_TYPE, SEQUENCE_NUMBER, change_columns
from bigquery_standin.storage.version_relation import ROW_ID, relation_sql

# How long an applied DELETE is remembered. Source: the same page, deleted data considerations.
DELETE_RETENTION_US = 2 * DAY_US
_ACKNOWLEDGED = "_acknowledged_us"
_POSITION = "_position"  # numbers the pending changes in their order; negative for applied ones


def merge_changes(
    catalog: Catalog, session: DuckDbSession, table: TableId, version: TableVersion, write: WriteRows, now_us: int
) -> tuple[PartitionWrites, Segment | None]:
    """Merges the version's pending changes into its rows. Commits nothing.

    Returns the new segments of changed partitions, and the one with the last applied change of each key. `now_us`: the
    time from which DELETE_RETENTION_US is counted back. `write`: writes a new segment.
    """
    log = version.change_log
    if log is None or not log.pending:
        return {}, log.applied if log else None
    # Rows in the streaming buffer stay there: BigQuery's pages do not say that a merge of row changes moves them, too.
    version = replace(version, buffer=())
    keys = [quote_identifier(name) for name in version.settings.primary_key]
    parts = [catalog.segments.read(log.applied)] if log.applied else []
    for streamed in log.pending:
        stored = conform(catalog.segments.read(streamed.segment), change_columns(version))
        times = pa.array([streamed.received_us] * stored.num_rows, pa.int64())
        parts.append(stored.append_column(_ACKNOWLEDGED, times))
    rows = pa.concat_tables(parts, promote_options="default")
    first = -log.applied.rows if log.applied else 0
    changes = session.register(rows.append_column(_POSITION, pa.array(range(first, first + rows.num_rows), pa.int64())))
    last = session.materialize(
        f"SELECT * FROM {changes} QUALIFY row_number() OVER (PARTITION BY {', '.join(keys)} "
        f"ORDER BY {SEQUENCE_NUMBER} DESC NULLS LAST, {_POSITION} DESC) = 1"
    )
    same_key = " AND ".join(f"_old.{key} = _new.{key}" for key in keys)
    removed = session.materialize(
        f"SELECT _old.{ROW_ID} FROM {relation_sql(table, version, catalog.segments, with_row_id=True)} AS _old "
        f"SEMI JOIN (FROM {last} WHERE {_POSITION} >= 0) AS _new ON {same_key}"
    )
    columns = ", ".join(quote_identifier(column.name) for column in version.settings.schema)
    _, upserts = session.run(
        f"SELECT {columns} FROM {last} WHERE {_POSITION} >= 0 AND {CHANGE_TYPE} = 'UPSERT' ORDER BY {_POSITION}"
    )
    row_changes = RowChanges(removed, conform(upserts, version.settings.schema), {})
    affected = affected_partitions(table, version, row_changes, session)
    writes = write_partitions(table, version, row_changes, affected, session, catalog, write)
    _, applied = session.run(
        f"SELECT {', '.join((*keys, CHANGE_TYPE, SEQUENCE_NUMBER, _ACKNOWLEDGED))} FROM {last} "
        f"WHERE {CHANGE_TYPE} = 'UPSERT' OR {_ACKNOWLEDGED} > {now_us - DELETE_RETENTION_US} ORDER BY {', '.join(keys)}"
    )
    return writes, write(applied)


def merged_version(
    catalog: Catalog, session: DuckDbSession, table: TableId, version: TableVersion, write: WriteRows, now_us: int
) -> TableVersion:
    """The version with its pending changes merged. It is not committed.

    `now_us`: the time as of which the version is read.
    """
    writes, _ = merge_changes(catalog, session, table, version, write, now_us)
    change = dml_change(version, writes, now_us)
    return without_expired(replace(version, partitions=change.partitions), now_us)
