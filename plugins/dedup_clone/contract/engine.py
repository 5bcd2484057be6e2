"""The engines that deduplicate, and which tables each of them supports. All engines give the same table."""

from __future__ import annotations

from enum import StrEnum

from dedup_clone.contract.table import (
    FIXED_COLUMNS,
    MAX_PRIMARY_KEY_COLUMNS,
    Column,
    ColumnMode,
    TableContract,
    UpdateIdMode,
    column_paths,
    float64_columns,
)


class Engine(StrEnum):
    """What deduplicates and fills staging.

    SPARK: a Spark job that reads files only, then a load job. CDC: the same Spark job, then new and changed rows are
    streamed into staging; where this is not possible, a load job. BIGQUERY: a SELECT whose result replaces the rows of
    staging. MERGE: a MERGE into staging, or that SELECT if staging may not have the parent's rows.
    """

    SPARK = "spark"
    BIGQUERY = "bigquery"
    MERGE = "merge"
    CDC = "cdc"

    @property
    def runs_spark(self) -> bool:
        """Whether the Spark job deduplicates, so that the generation has files."""
        return self in (Engine.SPARK, Engine.CDC)


MAX_CDC_COLUMNS = 2000  # BigQuery's limit for tables with change data capture


class SqlForm(StrEnum):
    """How the SELECT of engine BIGQUERY chooses one row per key. All forms choose the same rows.

    QUALIFY: a window function in the QUALIFY clause. ROW_NUMBER: the same function in a subquery. GROUP_BY: the first
    element of an ordered ARRAY_AGG.
    """

    QUALIFY = "qualify"
    ROW_NUMBER = "row_number"
    GROUP_BY = "group_by"


def unsupported_reason(engine: Engine, table: TableContract, mode: UpdateIdMode) -> str | None:
    """Why the engine cannot deduplicate this table, and which engine can; None when it can."""
    if engine is Engine.SPARK:
        return None
    if engine is Engine.CDC:
        return _cdc_unsupported_reason(table, mode)
    if mode is not UpdateIdMode.LAST_SEEN:
        return f"engine [{engine}] supports update_id_mode [last_seen] only: use engine [spark] for [{mode}]"
    floats = _floats_in_arrays(table.value_columns)
    if floats:
        return (
            f"engine [{engine}] cannot order arrays that hold FLOAT64 ({', '.join(floats)}), which it must to choose "
            f"between rows of one key: use engine [spark]"
        )
    return None


def _cdc_unsupported_reason(table: TableContract, mode: UpdateIdMode) -> str | None:
    if table.date_type != "DATE":
        return f"engine [cdc] is not tried with a partition column of type [{table.date_type}]: use engine [spark]"
    if mode is not UpdateIdMode.LAST_CHANGED:
        return (
            f"engine [cdc] supports update_id_mode [last_changed] only, because with [{mode}] every delivered row "
            f"changes: use engine [spark]"
        )
    taken = [name for name in table.keys if name in FIXED_COLUMNS]
    if taken:
        return (
            f"engine [cdc] reads changed rows from files with columns [{', '.join(FIXED_COLUMNS)}], and keys {taken} "
            f"are named like these: rename them, or use engine [spark]"
        )
    if len(table.keys) > MAX_PRIMARY_KEY_COLUMNS:
        return (
            f"engine [cdc] needs the keys as primary key, of at most [{MAX_PRIMARY_KEY_COLUMNS}] columns, and there "
            f"are [{len(table.keys)}]: use engine [spark]"
        )
    if len(table.columns) > MAX_CDC_COLUMNS:
        return (
            f"engine [cdc] takes at most [{MAX_CDC_COLUMNS}] columns, and there are [{len(table.columns)}]: use engine "
            f"[spark]"
        )
    return None


def _floats_in_arrays(columns: tuple[Column, ...]) -> list[str]:
    """Paths of the FLOAT64 columns, also nested ones, that are arrays or inside one."""
    arrays = tuple(f"{path}." for path, column in column_paths(columns) if column.mode is ColumnMode.REPEATED)
    return [path for path in float64_columns(columns) if f"{path}.".startswith(arrays)]
