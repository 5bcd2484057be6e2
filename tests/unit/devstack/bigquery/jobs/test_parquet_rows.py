"""Parquet files that cannot be read are refused as files, not as defects of the stand-in."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.jobs.parquet_rows import ParquetSource


def test_a_file_with_a_damaged_footer_is_refused_by_name() -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), stream)
    content = stream.getvalue()
    length = int.from_bytes(content[-8:-4], "little")
    damaged = content[: -8 - length] + b"\xff" * length + content[-8:]
    with pytest.raises(Invalid, match=r"(?s)is damaged.*File: gs://b/f"):
        ParquetSource("gs://b/f", damaged, list_inference=False, enum_as_string=False)
