"""Which tables an engine can deduplicate: judged when a feed is read, and when a replay asks for another engine."""

from __future__ import annotations

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.table import Column, ColumnMode, TableContract, UpdateIdMode


def engine_problem(engine: Engine, table: TableContract, mode: UpdateIdMode) -> str | None:
    """Why the engine cannot keep the contract for this table, and the way out; None when it can."""
    if engine is Engine.SPARK:
        return None
    if mode is not UpdateIdMode.LAST_SEEN:
        return f"engine [{engine}] knows update_id_mode [last_seen] only: use engine [spark] for [{mode}]"
    inexact = [path for column in table.value_columns for path in _floats_in_arrays(column, column.name, False)]
    if inexact:
        return (
            f"engine [{engine}] cannot order arrays that hold FLOAT64 ({', '.join(inexact)}), which it must to choose "
            f"between rows of one key: use engine [spark]"
        )
    return None


def _floats_in_arrays(column: Column, path: str, in_array: bool) -> list[str]:
    inside = in_array or column.mode is ColumnMode.REPEATED
    if column.type == "FLOAT64":
        return [path] if inside else []
    return [name for field in column.fields for name in _floats_in_arrays(field, f"{path}.{field.name}", inside)]
