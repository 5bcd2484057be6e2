"""CSV whose values have the right form but exceed their columns is refused."""

from __future__ import annotations

import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.jobs.csv_rows import CsvOptions, parse_csv
from devstack.bigquery.sql.field_types import TableField


@pytest.mark.parametrize(("kind", "text"), [("INT64", str(2**63)), ("NUMERIC", "1" * 30)])
def test_a_value_that_its_column_cannot_hold_is_refused_with_its_row(kind: str, text: str) -> None:
    fields = [TableField("c", kind)]
    with pytest.raises(Invalid, match=r"error in row \[3\]: "):
        parse_csv("f", f"c\n1\n{text}\n2\n".encode(), fields, fields, CsvOptions(leading_rows=1))
