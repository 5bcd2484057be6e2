"""BigQuery's rules for the columns of a table."""

from __future__ import annotations

import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.model import TableId, TableSettings
from devstack.bigquery.storage.table_rules import check_settings


@pytest.mark.parametrize("mode", ["NULLABLE", "REPEATED"])
def test_two_fields_of_a_struct_with_one_name_are_refused(mode: str) -> None:
    """Page: "Specifying a schema", column names: no duplicates, even if the case differs."""
    inner = TableField("i", "STRUCT", fields=(TableField("a", "INT64"), TableField("A", "STRING")))
    schema = (TableField("a", "INT64"), TableField("s", "STRUCT", mode, (TableField("a", "INT64"), inner)))
    with pytest.raises(Invalid, match=r"Duplicate column name \[s\.i\.a\]"):
        check_settings(TableId("p", "d", "t"), TableSettings(schema))
