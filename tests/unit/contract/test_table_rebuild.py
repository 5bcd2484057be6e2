"""Which changes a rebuild makes, and which need a feed of another name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.contract.table_rebuild import changes_keys, column_sources, columns_differ, rebuild_problems

DATE, KEY, VALUE, ID = Column("date", "DATE"), Column("key", "INT64"), Column("value", "INT64"), Column("id", "INT64")
STORE = Column("store", "STRUCT", fields=(VALUE,))
BEFORE = TableContract((DATE, KEY, VALUE, STORE, ID), "date", "id", ("date", "key"), ("key",), 30)
TEXT, PRICE = replace(VALUE, type="STRING"), replace(VALUE, name="price")


def after(*columns: Column, **changes: Any) -> TableContract:
    return replace(BEFORE, columns=columns or BEFORE.columns, **changes)


@pytest.mark.parametrize(
    ("table", "renamed", "sources"),
    [
        (after(DATE, KEY, STORE, ID), {}, [DATE, KEY, STORE, ID]),
        (after(DATE, KEY, TEXT, STORE, ID), {}, [DATE, KEY, VALUE, STORE, ID]),
        (after(DATE, KEY, PRICE, STORE, ID), {"value": "price"}, [DATE, KEY, VALUE, STORE, ID]),
        (after(DATE, KEY, PRICE, STORE, ID), {}, [DATE, KEY, None, STORE, ID]),
        (after(ID, VALUE, STORE, KEY, DATE), {}, [ID, VALUE, STORE, KEY, DATE]),
        (after(DATE, KEY, STORE, ID, cluster_by=()), {}, [DATE, KEY, STORE, ID]),
    ],
)
def test_a_column_is_copied_from_the_one_of_its_former_name(
    table: TableContract, renamed: dict[str, str], sources: list[Column | None]
) -> None:
    assert rebuild_problems(BEFORE, table, renamed) == []
    assert [source for _, source in column_sources(BEFORE, table, renamed)] == sources
    assert columns_differ(BEFORE, table)
    assert not changes_keys(BEFORE, table, renamed)


def test_other_keys_and_another_clustering_of_the_same_columns_need_no_copy() -> None:
    table = after(keys=("date", "value"), cluster_by=("value",))
    assert rebuild_problems(BEFORE, table, {}) == []
    assert (columns_differ(BEFORE, table), changes_keys(BEFORE, table, {})) == (False, True)


def test_a_key_of_another_type_changes_the_keys_whose_hashes_depend_on_it() -> None:
    table = after(DATE, replace(KEY, type="STRING"), VALUE, STORE, ID, cluster_by=())
    assert rebuild_problems(BEFORE, table, {}) == []
    assert changes_keys(BEFORE, table, {})


@pytest.mark.parametrize(
    ("table", "renamed", "words"),
    [
        (after(), {}, "no rebuild is needed"),
        (after(*BEFORE.columns, PRICE), {}, "no rebuild is needed"),
        (after(DATE, KEY, ID), {"value": "cost"}, "[value=cost] renames no column"),
        (after(DATE, KEY, VALUE, ID), {"store": "value"}, "[store=value] renames no column"),
        (after(DATE, replace(KEY, type="STRING"), VALUE, STORE, ID), {}, "column [key] clusters or partitions"),
        (after(DATE, KEY, PRICE, STORE, ID, cluster_by=("price",)), {}, "column [price] clusters or partitions"),
        (after(replace(DATE, name="day"), KEY, VALUE, STORE, ID, partition_column="day"), {"date": "day"}, "a feed of"),
        (after(snapshot_id_column="value"), {}, "snapshot_id_column is [value], it was [id]"),
        (after(DATE, KEY, VALUE, replace(STORE, fields=(TEXT,)), ID), {}, "column [store] is an ARRAY or STRUCT"),
        (after(DATE, KEY, replace(VALUE, mode=ColumnMode.REPEATED), STORE, ID), {}, "column [value] is an ARRAY"),
        (after(DATE, KEY, STORE, ID, replace(PRICE, mode=ColumnMode.REQUIRED)), {}, "new column [price] is REQUIRED"),
    ],
)
def test_what_a_rebuild_cannot_make_is_named(table: TableContract, renamed: dict[str, str], words: str) -> None:
    assert any(words in problem for problem in rebuild_problems(BEFORE, table, renamed))


def test_a_renamed_partition_column_is_not_said_to_cluster_the_table() -> None:
    table = after(replace(DATE, name="day"), KEY, VALUE, STORE, ID, partition_column="day", keys=("day", "key"))
    (problem,) = rebuild_problems(BEFORE, table, {"date": "day"})
    assert problem.startswith("partition_column is [day], it was [date]")
