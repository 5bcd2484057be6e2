"""Runs the Spark dedup job in the test's own process, without Spark, and makes Parquet files for it.

What is left to plan window needs Spark's DataFrames, and with them testkit/spark_dedup_process.py.
"""

from __future__ import annotations

import io
import os
from typing import Any, cast
from unittest.mock import patch
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from google.cloud.storage import Client
from pyspark.sql import SparkSession

from dedup_spark.command import read_attempt
from dedup_spark.execution.progress import JobLog
from dedup_spark.job import DedupJob
from dedup_spark.storage import cloud
from devstack.producer.declared_snapshots import schema
from testkit.driver_session import DriverSession
from testkit.table_contracts import PRODUCTS

Row = dict[str, Any]
SCHEMA = schema(PRODUCTS)
# The storage servers to which this process has connected, the newest last.
_connected: list[str] = []


def parquet_bytes(rows: list[Row], columns: pa.Schema = SCHEMA) -> bytes:
    """The content of a Parquet file with these rows."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), buffer)
    return buffer.getvalue()


def storage_address(storage: Client) -> str:
    """The URL of the storage server to which the client talks."""
    address = urlsplit(storage._connection.API_BASE_URL)
    return f"{address.scheme}://{address.netloc}"


class DedupInThisProcess:
    """The job on the storage server of `storage`. Its Spark tasks run one after the other (driver_session.py)."""

    def __init__(self, storage: Client) -> None:
        self._host = storage_address(storage)

    def run(self, request_uri: str) -> None:
        """Run the job on an attempt. Raises what the job raises."""
        with patch.dict(os.environ):
            os.environ.pop("STORAGE_EMULATOR_HOST", None)
            if not self._host.endswith(".googleapis.com"):
                os.environ["STORAGE_EMULATOR_HOST"] = self._host
            if _connected[-1:] != [self._host]:
                cloud.forget_clients()
                _connected.append(self._host)
            attempt = read_attempt(request_uri)
            DedupJob(attempt, lambda: cast(SparkSession, DriverSession()), JobLog(attempt)).run()
