"""Merges a table's pending row changes into its rows, for apply jobs and for queries that cannot wait for such a job.

For each key, the change with the greatest sequence number counts; among equal numbers, the one acknowledged last.
Changes that were applied before are compared too, so that a late change does not undo a newer one. Source: "Stream
table updates with change data capture".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from bigquery_standin.sql.field_types import TableField, quote_identifier
from bigquery_standin.storage.arrow_schema import conform
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.change_log import CHANGE_COLUMNS, CHANGE_TYPE, SEQUENCE_NUMBER, change_columns
from bigquery_standin.storage.model import Segment, TableId, TableVersion
from bigquery_standin.storage.partitions import without_expired
from bigquery_standin.storage.quotas import APPLIED
from bigquery_standin.storage.segment_store import SegmentBatch
from bigquery_standin.storage.version_relation import ROW_ID, relation_sql

# How long an applied DELETE is remembered, so that a change with a lower sequence number that arrives later does not
# bring the row back. Source: the same page, deleted data considerations.
DELETE_RETENTION_US = 2 * DAY_US
_ACKNOWLEDGED, _POSITION = "_acknowledged_us", "_position"
_APPLIED_COLUMNS = (*CHANGE_COLUMNS, TableField(_ACKNOWLEDGED, "INT64"))


@dataclass(frozen=True)
class MergedChanges:
    """What a merge has written.

    `writes`: the segments (stored Parquet files) with the rows of changed partitions. `applied`: the segment with the
    last change of every key, without DELETEs that are older than DELETE_RETENTION_US.
    """

    writes: PartitionWrites
    applied: Segment


def merge_changes(
    catalog: Catalog, session: DuckDbSession, table: TableId, version: TableVersion, batch: SegmentBatch, now_us: int
) -> MergedChanges:
    """Merges the version's pending changes into its rows, and writes the result as segments. Commits nothing.

    `now_us`: the time from which DELETE_RETENTION_US is counted back.
    """
    # Rows in the streaming buffer stay there: BigQuery's pages do not say that a merge of row changes moves them, too.
    version = replace(version, buffer=())
    keys = [quote_identifier(name) for name in version.settings.primary_key]
    last_changes = session.materialize(_last_changes_sql(catalog, session, version, keys))
    # SQL to put after FROM: it reads those of the last changes that are still pending. It ends with a condition.
    from_pending = f"{last_changes} WHERE {_POSITION} >= 0"
    same_key = " AND ".join(f"_old.{key} = _new.{key}" for key in keys)
    old_relation = relation_sql(table, version, catalog.segments, with_row_id=True)
    removed = session.materialize(
        f"SELECT _old.{ROW_ID} FROM {old_relation} AS _old SEMI JOIN (FROM {from_pending}) AS _new ON {same_key}"
    )
    columns = ", ".join(quote_identifier(column.name) for column in version.settings.schema)
    _, upserts = session.run(f"SELECT {columns} FROM {from_pending} AND {CHANGE_TYPE} = 'UPSERT' ORDER BY {_POSITION}")
    changes = RowChanges(removed, conform(upserts, version.settings.schema), {})
    affected = affected_partitions(table, version, changes, session)
    writes = write_partitions(table, version, changes, affected, session, catalog, batch)
    _, applied = session.run(
        f"SELECT {', '.join((*keys, *(column.name for column in _APPLIED_COLUMNS)))} FROM {last_changes} "
        f"WHERE {CHANGE_TYPE} = 'UPSERT' OR {_ACKNOWLEDGED} > {now_us - DELETE_RETENTION_US} ORDER BY {', '.join(keys)}"
    )
    return MergedChanges(writes, batch.write(applied))


def merged_version(
    catalog: Catalog, session: DuckDbSession, table: TableId, version: TableVersion, batch: SegmentBatch, now_us: int
) -> TableVersion:
    """The version with its pending changes merged. It is not committed; its new segments are in the batch.

    `now_us`: the time as of which the version is read.
    """
    merged = merge_changes(catalog, session, table, version, batch, now_us)
    change = dml_change(APPLIED, catalog, table, version, version, merged.writes, now_us)
    return without_expired(replace(version, partitions=change.partitions), now_us)


def _last_changes_sql(catalog: Catalog, session: DuckDbSession, version: TableVersion, keys: list[str]) -> str:
    """SQL that selects the last change of each key: the one that counts by the module's rule.

    The column `_position` numbers the pending changes in the order of acknowledgement; it is -1 in an applied change.
    """
    log = version.change_log
    assert log is not None  # the caller has seen pending changes
    change_tables, position = [], 0
    for changes in log.pending:
        rows = conform(catalog.segments.read(changes.segment), change_columns(version))
        positions = pa.array(range(position, position + rows.num_rows), pa.int64())
        acknowledged = pa.array([changes.acknowledged_us] * rows.num_rows, pa.int64())
        change_tables.append(rows.append_column(_ACKNOWLEDGED, acknowledged).append_column(_POSITION, positions))
        position += rows.num_rows
    if log.applied is not None:
        rows = catalog.segments.read(log.applied)
        change_tables.append(rows.append_column(_POSITION, pa.array([-1] * rows.num_rows, pa.int64())))
    all_changes = session.register(pa.concat_tables(change_tables, promote_options="default"))
    order = f"{SEQUENCE_NUMBER} DESC NULLS LAST, {_POSITION} DESC"
    return (
        f"SELECT * FROM {all_changes} QUALIFY row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {order}) = 1"
    )
