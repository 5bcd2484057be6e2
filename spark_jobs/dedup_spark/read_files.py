"""Spark's way to exactly the named files, whatever characters their names have."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


def read_files(session: SparkSession, schema: StructType, uris: list[str]) -> DataFrame:
    """Recursive lookup keeps Spark from taking `date=…` in a path for a column; a name is never a pattern."""
    reader = session.read.schema(schema).option("recursiveFileLookup", "true").option("__globPaths__", "false")
    return reader.parquet(*uris)
