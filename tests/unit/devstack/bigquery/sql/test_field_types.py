"""Conversions of types between BigQuery SQL, the REST API, DuckDB and Arrow."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from devstack.bigquery.bigquery_errors import Invalid, NotImplementedConstruct, StandInError
from devstack.bigquery.sql.field_types import TableField, field_from_duckdb, from_arrow_schema, to_duckdb_type
from devstack.bigquery.sql.tokens import TokenCursor, tokenize
from devstack.bigquery.sql.type_parser import field_of_type, parse_columns

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
NESTED = TableField(
    "n",
    "STRUCT",
    "REPEATED",
    (TableField("a", "INT64", "REQUIRED"), TableField("b", "STRING", "REPEATED", description="words")),
)
SCALARS = ["INT64", "FLOAT64", "BOOL", "STRING", "BYTES", "DATE", "DATETIME", "TIME", "TIMESTAMP", "NUMERIC"]


def test_api_form_has_the_older_names() -> None:
    assert NESTED.to_api() == {
        "name": "n",
        "type": "RECORD",
        "mode": "REPEATED",
        "fields": [
            {"name": "a", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "b", "type": "STRING", "mode": "REPEATED", "description": "words"},
        ],
    }


def test_policy_tag_is_kept_and_found_in_nested_fields() -> None:
    tagged = TableField("x", "STRING", policy_tags=(TAG,))
    assert tagged.to_api() == {"name": "x", "type": "STRING", "mode": "NULLABLE", "policyTags": {"names": [TAG]}}
    assert TableField.from_api(tagged.to_api()) == tagged
    assert TableField("s", "STRUCT", fields=(TableField("a", "INT64"), tagged)).first_policy_tag() == TAG
    assert NESTED.first_policy_tag() is None


def test_names_in_sql_have_backticks_if_they_need_them() -> None:
    field = TableField(
        "", "STRUCT", fields=(TableField("order", "INT64"), TableField("a b", "DATE"), TableField("c", "DATE"))
    )
    assert field.sql_type() == "STRUCT<`order` INT64, `a b` DATE, c DATE>"
    assert field_of_type(field.sql_type()) == field


def test_api_form_reads_back() -> None:
    assert TableField.from_api(NESTED.to_api()) == NESTED
    assert TableField.from_api({"name": "x", "type": "struct", "fields": [{"name": "y", "type": "float"}]}) == (
        TableField("x", "STRUCT", fields=(TableField("y", "FLOAT64"),))
    )


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ({"name": "x", "type": "BIGNUMERIC"}, NotImplementedConstruct),
        ({"name": "x", "type": "INTEGER", "dataPolicies": []}, NotImplementedConstruct),
        ({"name": "x", "type": "INTEGER", "policyTags": {"names": ["secret"]}}, Invalid),
        ({"name": "x", "type": "INTEGER", "policyTags": {"names": [TAG, TAG]}}, Invalid),
        ({"name": "x", "type": "INTEGER", "mode": "MAYBE"}, Invalid),
        ({"name": "x", "type": "RECORD"}, Invalid),
        ({"name": "x", "type": "NOTHING"}, Invalid),
        ({"type": "INTEGER"}, Invalid),
    ],
)
def test_api_form_refuses_what_it_would_not_keep(api: dict[str, Any], error: type[StandInError]) -> None:
    with pytest.raises(error):
        TableField.from_api(api)


@pytest.mark.parametrize("name", [*SCALARS, "ARRAY<INT64>", "STRUCT<a INT64, b ARRAY<STRUCT<c DATE>>>"])
def test_type_goes_to_duckdb_and_back(name: str) -> None:
    field = field_of_type(name)
    ((name_in_result, duckdb_type, *_),) = duckdb.sql(f"SELECT CAST(NULL AS {to_duckdb_type(field)}) AS x").description
    found = field_from_duckdb(name_in_result, duckdb_type)
    assert found == TableField("x", field.type, field.mode, field.fields)
    assert field.sql_type() == name


def test_arrow_schema_of_a_file_becomes_columns() -> None:
    schema = pa.schema(
        [
            pa.field("i", pa.int32()),
            pa.field("r", pa.int64(), nullable=False),
            pa.field("t", pa.timestamp("us", tz="UTC")),
            pa.field("spark", pa.timestamp("ns")),
            pa.field("local", pa.timestamp("us")),
            pa.field("n", pa.decimal128(18, 2)),
            pa.field("d", pa.dictionary(pa.int32(), pa.string())),
            pa.field("l", pa.list_(pa.struct([pa.field("x", pa.float32())]))),
        ]
    )
    assert from_arrow_schema(schema) == (
        TableField("i", "INT64"),
        TableField("r", "INT64", "REQUIRED"),
        TableField("t", "TIMESTAMP"),
        TableField("spark", "TIMESTAMP"),
        TableField("local", "DATETIME"),
        TableField("n", "NUMERIC"),
        TableField("d", "STRING"),
        TableField("l", "STRUCT", "REPEATED", (TableField("x", "FLOAT64"),)),
    )


@pytest.mark.parametrize("kind", [pa.decimal128(38, 10), pa.list_(pa.list_(pa.int64())), pa.duration("s")])
def test_arrow_type_without_a_counterpart_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(NotImplementedConstruct):
        from_arrow_schema(pa.schema([pa.field("x", kind)]))


@pytest.mark.parametrize("type_name", [*SCALARS, "ARRAY<INT64>", "STRUCT<a INT64>", "NUMERIC(5, 2)", "INTEGER"])
def test_a_column_may_be_named_constraint(type_name: str) -> None:
    text = f"(constraint {type_name})"
    (column,), _ = parse_columns(TokenCursor(text, tokenize(text)))
    assert column.name == "constraint"
