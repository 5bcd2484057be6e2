"""Parquet files that the stand-in cannot read, or not without an option, are refused by name."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from devstack.bigquery.bigquery_errors import Invalid, NotImplementedConstruct
from devstack.bigquery.jobs.parquet_rows import ParquetSource


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
