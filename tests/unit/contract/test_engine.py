"""Which feeds an engine in SQL takes: an unsupported one is refused when its file is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dedup_clone.contract.engine import Engine, unsupported_reason
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import Column, ColumnMode, TableContract, UpdateIdMode
from dedup_clone.settings.feed import read_feed
from testkit.table_contracts import NESTED, PRODUCTS

FEEDS = Path(__file__).parents[3] / "dags" / "feeds"
FLOATS = Column("floats", "FLOAT64", ColumnMode.REPEATED)
DEEP = Column("rows", "STRUCT", ColumnMode.REPEATED, (Column("more", "STRUCT", fields=(Column("x", "FLOAT64"),)),))


def with_column(column: Column) -> TableContract:
    return TableContract(
        (*PRODUCTS.columns, column), "date", "update_id", PRODUCTS.keys, PRODUCTS.cluster_by, PRODUCTS.retention_days
    )


@pytest.mark.parametrize("engine", [engine for engine in Engine if engine is not Engine.CDC])
@pytest.mark.parametrize("table", [PRODUCTS, NESTED], ids=["products", "nested"])
def test_engines_take_what_they_can_order_exactly(engine: Engine, table: TableContract) -> None:
    assert unsupported_reason(engine, table, UpdateIdMode.LAST_SEEN) is None


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, Engine.MERGE])
def test_arrays_of_floating_point_numbers_are_left_to_spark(engine: Engine) -> None:
    for column, path in ((FLOATS, "floats"), (DEEP, "rows.more.x")):
        problem = unsupported_reason(engine, with_column(column), UpdateIdMode.LAST_SEEN)
        assert problem
        assert f"cannot order arrays that hold FLOAT64 ({path})" in problem
        assert "use engine [spark]" in problem
        assert unsupported_reason(Engine.SPARK, with_column(column), UpdateIdMode.LAST_SEEN) is None


def test_streamed_changes_need_last_changed_and_what_bigquery_takes_as_a_primary_key() -> None:
    def reason(table: TableContract, mode: UpdateIdMode = UpdateIdMode.LAST_CHANGED) -> str:
        return unsupported_reason(Engine.CDC, table, mode) or ""

    keys = ("date", *(f"key_{number}" for number in range(16)))
    many_keys = tuple(Column(name, "INT64") for name in keys[1:])
    wide = tuple(Column(f"value_{number}", "INT64") for number in range(1996))
    assert reason(with_column(FLOATS)) == reason(NESTED) == ""
    assert "with [last_seen] every delivered row changes" in reason(PRODUCTS, UpdateIdMode.LAST_SEEN)
    assert "at most [16] columns" in reason(replace(PRODUCTS, columns=(*PRODUCTS.columns, *many_keys), keys=keys))
    assert "at most [2000] columns" in reason(replace(PRODUCTS, columns=(*PRODUCTS.columns, *wide)))


def test_last_changed_is_left_to_spark_and_reported_when_the_feed_is_read(tmp_path: Path) -> None:
    text = (FEEDS / "product_attributes.yaml").read_text()
    path = tmp_path / "product_attributes.yaml"
    path.write_text(f"{text}engine: merge\nupdate_id_mode: last_changed\n")
    with pytest.raises(ConfigurationError, match=r"engine \[merge\] supports update_id_mode \[last_seen\] only.*spark"):
        read_feed(path)
    path.write_text(f"{text}engine: bigquery\n")
    assert read_feed(path).engine is Engine.BIGQUERY
