"""Values that variables and columns cannot have are refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.bigquery.bigquery_errors import InvalidQuery
from devstack.bigquery.jobs.script_state import check_assignable
from devstack.bigquery.sql.field_types import TableField
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        ("(SELECT AS STRUCT 1, 2 FROM UNNEST([0]) AS n WHERE n = 1)", "notImplemented", "NULL STRUCT"),
        ("[STRUCT(1 AS x, 2 AS y)]", "invalidQuery", "found [ARRAY<STRUCT<"),
    ],
)
def test_set_of_several_variables_needs_a_struct(tmp_path: Path, value: str, reason: str, message: str) -> None:
    job = Warehouse(tmp_path).run(f"DECLARE a, b INT64; SET (a, b) = ({value}); SELECT a, b;")
    assert job.error is not None
    assert job.error["reason"] == reason
    assert message in job.error["message"]


@pytest.mark.parametrize(
    "value",
    [TableField("v", "INT64", "REPEATED"), TableField("v", "STRUCT", fields=(TableField("x", "INT64"),))],
)
@pytest.mark.parametrize("mode", ["NULLABLE", "REQUIRED"])
def test_a_column_takes_neither_an_array_of_its_type_nor_a_struct_with_other_fields(
    value: TableField, mode: str
) -> None:
    other = (TableField("y", "STRING"),) if value.type == "STRUCT" else ()
    with pytest.raises(InvalidQuery, match="cannot be inserted into column"):
        check_assignable(value, TableField("c", value.type, mode, other))
