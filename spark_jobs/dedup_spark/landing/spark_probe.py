"""After a failure of Spark: which landed files it cannot read, although the examination could.

Only a failure whose cause lies in the file is the file's fault, and only when it comes again: a storage or an executor
that fails must never refuse a delivery.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from dedup_spark.failures import SPARK_FAILURES, cause
from dedup_spark.landing.inspection import Inspected
from dedup_spark.read_files import read_files
from dedup_spark.session import Spark

# The innermost cause: Parquet's own code, a name or a value that Java cannot take. Never a connection, never memory.
_FAULT_OF_A_FILE = re.compile(
    r"org\.apache\.parquet|java\.lang\.\w+Exception|java\.net\.URISyntaxException|SchemaColumnConvertNotSupported"
    r"|[Uu]nsupported encoding|is not a Parquet file"
)
_SHOWN_CHARACTERS = 300


def unreadable_by_spark(spark: Spark, inspected: Sequence[Inspected]) -> list[tuple[Inspected, str]]:
    """Each file that Spark cannot read, and what it said. Reads all of them."""
    by_schema: defaultdict[str, list[Inspected]] = defaultdict(list)
    for one in inspected:
        by_schema[one.spark_schema].append(one)
    return [fault for files in by_schema.values() for fault in _search(spark.session(), files)]


def _search(session: SparkSession, files: list[Inspected]) -> list[tuple[Inspected, str]]:
    """Halves the files until the unreadable ones stand alone."""
    failure = _failure(session, files)
    if failure is None:
        return []
    if len(files) > 1:
        half = len(files) // 2
        return _search(session, files[:half]) + _search(session, files[half:])
    again = _failure(session, files)
    text = cause(again) if again else ""
    return [(files[0], text[:_SHOWN_CHARACTERS])] if _FAULT_OF_A_FILE.search(text) else []


def _failure(session: SparkSession, files: list[Inspected]) -> Exception | None:
    session.sparkContext.setJobDescription(f"read {len(files)} landed files, to find what Spark cannot read")
    schema = StructType.fromJson(json.loads(files[0].spark_schema))
    try:
        read_files(session, schema, [one.file.uri for one in files]).write.format("noop").mode("overwrite").save()
    except SPARK_FAILURES as failure:
        return failure
    return None
