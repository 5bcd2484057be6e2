"""Column changes that a publish makes, those that a rebuild makes, and those that need a feed of another name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dedup_clone.contract.schema_change import (
    added_columns,
    changes_keys,
    column_sources,
    rebuild_problems,
    refused_column_changes,
    refused_table_changes,
    relaxed_columns,
    widened_columns,
    with_wider_types,
)
from dedup_clone.contract.table import Column, ColumnMode, TableContract

NUMBER, CITY = Column("number", "INT64"), Column("city", "STRING")
STORE = Column("store", "STRUCT", fields=(CITY,))
BEFORE = (NUMBER, STORE)
AREA = Column("area", "FLOAT64")
WIDER_STORE = Column("store", "STRUCT", fields=(CITY, AREA))
TAGS = Column("tags", "STRING", ColumnMode.REPEATED)


@pytest.mark.parametrize(
    ("after", "added"),
    [
        (BEFORE, []),
        ((*BEFORE, TAGS), ["tags"]),
        ((NUMBER, WIDER_STORE, AREA), ["store.area", "area"]),
    ],
)
def test_columns_added_behind_the_others_are_a_change_that_a_publish_makes(
    after: tuple[Column, ...], added: list[str]
) -> None:
    assert refused_column_changes(BEFORE, after) == []
    assert added_columns(BEFORE, after) == added


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ((NUMBER,), "column [store] is no longer declared"),
        ((Column("number", "FLOAT64"), STORE), "column [number] is [FLOAT64], it was [INT64]"),
        ((NUMBER, Column("store", "STRUCT", fields=(Column("city", "BYTES"),))), "column [store.city] is [BYTES]"),
        ((Column("number", "INT64", ColumnMode.REQUIRED), STORE), "column [number] is [REQUIRED], it was [NULLABLE]"),
        ((Column("number", "INT64", ColumnMode.REPEATED), STORE), "column [number] is [REPEATED], it was [NULLABLE]"),
        ((NUMBER, Column("store", "STRUCT", fields=(AREA,))), "column [store.city] is no longer declared"),
        ((*BEFORE, Column("must", "STRING", ColumnMode.REQUIRED)), "new column [must] is REQUIRED"),
        ((TAGS, *BEFORE), "expected first [number, store]"),
        ((STORE, NUMBER), "expected first [number, store]"),
        ((NUMBER, Column("store", "STRUCT", fields=(AREA, CITY))), "expected first [store.city]"),
    ],
)
def test_every_other_change_is_refused_with_its_reason(after: tuple[Column, ...], reason: str) -> None:
    assert reason in "; ".join(refused_column_changes(BEFORE, after))


def test_int64_may_become_numeric_outside_of_arrays_and_required_columns_nullable() -> None:
    """BigQuery's pages "Modifying table schemas" and "Specify nested and repeated columns"."""
    required, numeric = Column("number", "INT64", ColumnMode.REQUIRED), Column("number", "NUMERIC")
    assert refused_column_changes((required,), (numeric,)) == []
    assert (widened_columns((required,), (numeric,)), relaxed_columns((required,), (numeric,))) == (["number"],) * 2
    assert refused_column_changes((numeric,), (NUMBER,)) == ["column [number] is [INT64], it was [NUMERIC]"]
    for mode in (ColumnMode.NULLABLE, ColumnMode.REPEATED):
        inside = [(Column("at", "STRUCT", mode, (column,)),) for column in (required, NUMBER)]
        assert refused_column_changes(*inside) == []
        assert relaxed_columns(*inside) == ["at.number"]
        assert refused_column_changes(*reversed(inside)) == ["column [at.number] is [REQUIRED], it was [NULLABLE]"]
    repeated = [(replace(column, mode=ColumnMode.REPEATED),) for column in (NUMBER, numeric)]
    assert refused_column_changes(*repeated) == ["column [number] is [NUMERIC], it was [INT64]"]


def test_a_field_of_a_struct_gets_a_wider_type_with_the_whole_column_and_none_in_an_array_does() -> None:
    """BigQuery's page "Modifying table schemas", "Change a column's data type" and "Modify nested column types"."""

    def nested(kind: str, *further: Column, mode: ColumnMode = ColumnMode.NULLABLE) -> Column:
        inner = Column("inner", "STRUCT", mode, (Column("number", kind), *further))
        return Column("outer", "STRUCT", fields=(CITY, inner))

    before, after = nested("INT64"), nested("NUMERIC", AREA)
    assert refused_column_changes([before], [after]) == []
    assert (widened_columns([before], [after]), added_columns([before], [after])) == (
        ["outer.inner.number"],
        ["outer.inner.area"],
    )
    assert with_wider_types(before, after) == nested("NUMERIC")  # a load job adds the other field
    assert with_wider_types(before, before) is before
    arrays = [[nested(kind, mode=ColumnMode.REPEATED)] for kind in ("INT64", "NUMERIC")]
    assert widened_columns(*arrays) == []
    assert refused_column_changes(*arrays) == ["column [outer.inner.number] is [NUMERIC], it was [INT64]"]


def test_the_roles_of_columns_stay() -> None:
    before = TableContract((Column("day", "DATE"), NUMBER, Column("id", "INT64")), "day", "id", ("day",), (), 9)
    columns = (Column("day", "DATE"), Column("number", "NUMERIC"), Column("id", "INT64"))
    assert refused_table_changes(before, replace(before, columns=columns, retention_days=1)) == []
    clustered = replace(before, cluster_by=("number",))
    assert (
        "columns of keys, snapshot id and clustering"
        in refused_table_changes(clustered, replace(clustered, columns=columns))[0]
    )
    assert refused_table_changes(before, replace(before, keys=("day", "number"))) == [
        "keys is [day, number], it was [day]"
    ]


DATE, KEY, VALUE, ID = Column("date", "DATE"), Column("key", "INT64"), Column("value", "INT64"), Column("id", "INT64")
SHOP = Column("store", "STRUCT", fields=(VALUE,))
TABLE = TableContract((DATE, KEY, VALUE, SHOP, ID), "date", "id", ("date", "key"), ("key",), 30)
TEXT, PRICE = replace(VALUE, type="STRING"), replace(VALUE, name="price")


def after(*columns: Column, **changes: Any) -> TableContract:
    return replace(TABLE, columns=columns or TABLE.columns, **changes)


@pytest.mark.parametrize(
    ("table", "renamed", "sources"),
    [
        (after(DATE, KEY, SHOP, ID), {}, [DATE, KEY, SHOP, ID]),
        (after(DATE, KEY, TEXT, SHOP, ID), {}, [DATE, KEY, VALUE, SHOP, ID]),
        (after(DATE, KEY, PRICE, SHOP, ID), {"value": "price"}, [DATE, KEY, VALUE, SHOP, ID]),
        (after(DATE, KEY, PRICE, SHOP, ID), {}, [DATE, KEY, None, SHOP, ID]),
        (after(ID, VALUE, SHOP, KEY, DATE), {}, [ID, VALUE, SHOP, KEY, DATE]),
        (after(DATE, KEY, SHOP, ID, cluster_by=()), {}, [DATE, KEY, SHOP, ID]),
    ],
)
def test_a_column_is_copied_from_the_one_of_its_former_name(
    table: TableContract, renamed: dict[str, str], sources: list[Column | None]
) -> None:
    assert rebuild_problems(TABLE, table, renamed) == []
    assert [source for _, source in column_sources(TABLE, table, renamed)] == sources
    assert not changes_keys(TABLE, table, renamed)


def test_a_key_of_another_type_changes_the_keys_whose_hashes_depend_on_it() -> None:
    table = after(DATE, replace(KEY, type="STRING"), VALUE, SHOP, ID, cluster_by=())
    assert rebuild_problems(TABLE, table, {}) == []
    assert changes_keys(TABLE, table, {})


@pytest.mark.parametrize(
    ("table", "renamed", "words"),
    [
        (after(), {}, "no rebuild is needed"),
        (after(*TABLE.columns, PRICE), {}, "no rebuild is needed"),
        (after(DATE, KEY, ID), {"value": "cost"}, "[value=cost] renames no column"),
        (after(DATE, KEY, VALUE, ID), {"store": "value"}, "[store=value] renames no column"),
        (after(DATE, replace(KEY, type="STRING"), VALUE, SHOP, ID), {}, "column [key] clusters or partitions"),
        (after(DATE, KEY, PRICE, SHOP, ID, cluster_by=("price",)), {}, "column [price] clusters or partitions"),
        (after(replace(DATE, name="day"), KEY, VALUE, SHOP, ID, partition_column="day"), {"date": "day"}, "a feed of"),
        (after(replace(DATE, type="TIMESTAMP"), KEY, VALUE, SHOP, ID), {}, "type of partition_column is [TIMESTAMP]"),
        (after(snapshot_id_column="value"), {}, "snapshot_id_column is [value], it was [id]"),
        (after(DATE, KEY, VALUE, replace(SHOP, fields=(TEXT,)), ID), {}, "column [store] is an ARRAY or STRUCT"),
        (after(DATE, KEY, replace(VALUE, mode=ColumnMode.REPEATED), SHOP, ID), {}, "column [value] is an ARRAY"),
        (after(DATE, KEY, SHOP, ID, replace(PRICE, mode=ColumnMode.REQUIRED)), {}, "new column [price] is REQUIRED"),
    ],
)
def test_what_a_rebuild_cannot_make_is_named(table: TableContract, renamed: dict[str, str], words: str) -> None:
    assert any(words in problem for problem in rebuild_problems(TABLE, table, renamed))
