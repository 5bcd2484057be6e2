"""Computes how a job that writes rows changes its destination table: the schema and the partitions.

Raises BigQuery's error where the job does not fit the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from bigquery_standin.bigquery_errors import Duplicate, Invalid, NotFound
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.storage.model import Partition, Segment, TableId, TableSettings, TableVersion
from bigquery_standin.storage.partitions import split_rows
from bigquery_standin.storage.segment_store import SegmentStore
from bigquery_standin.storage.table_history import Change
from bigquery_standin.storage.table_rules import check_settings

NewSegments = Mapping[str, Sequence[Segment]]  # stored Parquet files, by partition id


def resolve_settings(
    table: TableId,
    current: TableSettings | None,
    fields: tuple[TableField, ...],
    replaces_schema: bool,
    *,
    adds_fields: bool = False,
) -> TableSettings:
    """The table's settings after the job. Raises Invalid if the job's schema does not fit the table.

    `current`: the settings before the job; None if there is no table. `fields`: the job's schema.
    `replaces_schema`: whether the job writes a whole table with WRITE_TRUNCATE. It then replaces the schema and its
    policy tags, removes description, primary key and row access policies, and keeps all other settings, such as the
    layout, the labels and the expiration.
    `adds_fields`: whether the job may add columns to the table.
    """
    if current is None:
        settings = TableSettings(fields)
    elif replaces_schema:
        settings = replace(current, schema=fields, description=None, row_policies=(), primary_key=())
    else:
        if adds_fields:
            current = replace(current, schema=_with_new_fields(table, current.schema, fields))
        if not current.schema:
            return replace(current, schema=fields)
        check_schema(f"Provided Schema does not match Table {table}.", current.schema, fields)
        return current
    check_settings(table, settings)
    return settings


def check_schema(
    refusal: str,
    existing: Sequence[TableField],
    provided: Sequence[TableField],
    prefix: str = "",
    *,
    modes: bool = True,
) -> None:
    """Raises Invalid unless the schema of a job or of a file fits the table's. It may lack NULLABLE columns.

    `refusal`: how the error begins. `prefix`: the path of the RECORD whose fields these are, with a final dot; empty
    for columns. `modes`: whether a NULLABLE field does not fit a REQUIRED column.
    """
    unmatched = {field.name.lower(): field for field in provided}
    for column in existing:
        name = prefix + column.name
        field = unmatched.pop(column.name.lower(), None)
        if field is None:
            if column.mode == "REQUIRED":
                raise Invalid(f"{refusal} Required field {name} is missing")
            continue
        if (field.type, field.mode == "REPEATED") != (column.type, column.mode == "REPEATED"):
            raise Invalid(f"{refusal} Field {name} has changed type from {column.sql_type()} to {field.sql_type()}")
        if modes and field.mode not in (column.mode, "REQUIRED"):
            raise Invalid(f"{refusal} Field {name} has changed mode from {column.mode} to {field.mode}")
        if field.policy_tags not in ((), column.policy_tags):
            raise Invalid(
                f"{refusal} Field {name} has policy tags [{', '.join(column.policy_tags)}], the job's schema says "
                f"[{', '.join(field.policy_tags)}]: change them with tables.patch."
            )
        check_schema(refusal, column.fields, field.fields, f"{name}.", modes=modes)
    if unmatched:
        raise Invalid(f"{refusal} Cannot add fields (field: {prefix}{next(iter(unmatched.values())).name})")


def _with_new_fields(
    table: TableId, existing: Sequence[TableField], provided: Sequence[TableField]
) -> tuple[TableField, ...]:
    """The existing columns, then those of `provided` that are new. Raises Invalid for a REQUIRED one."""
    unmatched = {field.name.lower(): field for field in provided}
    columns = []
    for column in existing:
        field = unmatched.pop(column.name.lower(), column)
        columns.append(replace(column, fields=_with_new_fields(table, column.fields, field.fields)))
    # Without existing columns, this is a table without a schema or a column that is no STRUCT: nothing is added to it.
    for field in unmatched.values() if existing else ():
        if field.mode == "REQUIRED":
            raise Invalid(
                f"Provided Schema does not match Table {table}. Cannot add required fields to an existing schema. "
                f"(field: {field.name})"
            )
        columns.append(field)
    return tuple(columns)


def check_dispositions(
    table: TableId, partition: str | None, current: TableVersion | None, create_disposition: str, write_disposition: str
) -> None:
    """Raises NotFound or Duplicate if the dispositions forbid the job to write into the table as it is now."""
    if current is None:
        if create_disposition == "CREATE_NEVER":
            raise NotFound(f"Not found: Table {table}")
        return
    if current.settings.view is not None:
        raise Invalid(f"Cannot write into {table}: it is a view.")
    if write_disposition == "WRITE_EMPTY" and any(segment.rows for segment in current.segments(partition)):
        name = table if partition is None else f"{table}${partition}"
        raise Duplicate(f"Already Exists: Table {name}")


def write_change(
    settings: TableSettings,
    current: TableVersion | None,
    new_segments: NewSegments,
    write_disposition: str,
    partition: str | None,
    commit_us: int,
) -> Change:
    """The change that appends the new segments, or replaces all rows, or the rows of one partition, by them.

    `partition`: the partition that the table's name in the job has as a decorator (`table$partition`), or None.
    A clone remains one unless WRITE_TRUNCATE replaces the whole table. The streaming buffer is emptied only if all rows
    are replaced. Source: "Use the Storage Write API (REST)".
    """
    after = dict(current.partitions) if current else {}
    truncates = write_disposition in ("WRITE_TRUNCATE", "WRITE_TRUNCATE_DATA")
    if truncates:
        if partition is None:
            after.clear()
        else:
            after.pop(partition, None)
    for key, segments in new_segments.items():
        earlier = after[key].segments if key in after else ()
        after[key] = Partition((*earlier, *segments), commit_us)
    replaces_table = write_disposition == "WRITE_TRUNCATE" and partition is None
    return Change(
        settings=settings,
        partitions=after,
        commit_us=commit_us,
        clone=current.clone if current and not replaces_table else None,
        buffer=() if current is None or (truncates and partition is None) else current.buffer,
        replaces_rows=truncates and partition is None,
    )


def rewritten(
    version: TableVersion, rows: pa.Table, partitions: Collection[str], segments: SegmentStore, commit_us: int
) -> Change:
    """The change after which these partitions have those of the rows that belong there. The others stay as they are."""
    after = {key: partition for key, partition in version.partitions.items() if key not in partitions}
    for key, part in split_rows(rows, version.settings, partitions):
        after[key] = Partition((segments.write(part),), commit_us)
    return Change(version.settings, after, commit_us, version.clone)


def with_new_columns(segments: SegmentStore, current: TableVersion, schema: tuple[TableField, ...]) -> TableVersion:
    """The version with all rows, also buffered ones, in segments that have all columns of the new schema.

    The change log stays: its changes get the new columns when they are read.
    """

    def widened(segment: Segment) -> Segment:
        return segments.write(segments.read_all([segment], schema))

    partitions = {
        key: replace(partition, segments=tuple(widened(segment) for segment in partition.segments))
        for key, partition in current.partitions.items()
    }
    buffer = tuple(replace(rows, segment=widened(rows.segment)) for rows in current.buffer)
    return replace(current, partitions=partitions, buffer=buffer)
