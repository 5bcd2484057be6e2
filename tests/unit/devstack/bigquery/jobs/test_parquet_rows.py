"""Parquet files that the stand-in cannot read, or not without an option, are refused by name."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from devstack.bigquery.bigquery_errors import Invalid, NotImplementedConstruct
from devstack.bigquery.jobs.parquet_rows import ParquetSource
from devstack.bigquery.sql.field_types import TableField
from tests.spark.file_catalogue import STORED, TABLE, expected

DECLARED = tuple(
    TableField(c.name, c.type, str(c.mode), fields=tuple(TableField(f.name, f.type) for f in c.fields))
    for c in TABLE.columns
)


def test_a_file_with_a_damaged_footer_is_refused_by_name() -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), stream)
    content = stream.getvalue()
    length = int.from_bytes(content[-8:-4], "little")
    damaged = content[: -8 - length] + b"\xff" * length + content[-8:]
    with pytest.raises(Invalid, match=r"(?s)is damaged.*File: gs://b/f"):
        ParquetSource("gs://b/f", damaged, list_inference=False, enum_as_string=False)


def test_a_list_inside_a_struct_needs_list_inference() -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"a": [1], "s": [{"inner": {"tags": ["x"]}}]}), stream)
    with pytest.raises(NotImplementedConstruct, match=r"LIST column s\.inner\.tags without"):
        ParquetSource("gs://b/f", stream.getvalue(), list_inference=False, enum_as_string=False)
    assert ParquetSource("gs://b/f", stream.getvalue(), list_inference=True, enum_as_string=False).fields


@pytest.mark.parametrize("path", sorted(STORED.glob("*.parquet")), ids=lambda path: path.stem)
def test_a_file_is_loaded_by_its_own_schema_whatever_arrow_schema_its_writer_added(path: Path) -> None:
    source = ParquetSource("gs://b/f", path.read_bytes(), list_inference=True, enum_as_string=False)
    source.check(DECLARED)
    rows = source.rows(DECLARED)
    assert source.can_be_stored_as_is(DECLARED)
    assert pq.read_table(pa.BufferReader(source.content)).to_pylist() == rows.to_pylist()
    assert sorted(rows.to_pylist(), key=lambda row: row["id"]) == expected(rows["day"][0].as_py())
