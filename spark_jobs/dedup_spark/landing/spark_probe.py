"""Finds, after Spark failed, the landed files that Spark cannot read although they passed validation.

A file is named only if reading it fails twice, and if the cause of the failure is in the file: a failure of the storage
or of an executor must never lead to a refusal.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from dedup_spark.execution.session import SPARK_FAILURES, SessionSource, read_files, root_cause
from dedup_spark.landing.file_validation import FileValidation

# Matches innermost causes that lie in a file (errors of Parquet's code, and names or values that Java rejects), but no
# errors of connections or memory.
_FAULT_OF_A_FILE = re.compile(
    r"org\.apache\.parquet|java\.lang\.\w+Exception|java\.net\.URISyntaxException|SchemaColumnConvertNotSupported"
    r"|[Uu]nsupported encoding|is not a Parquet file"
)
# Without "Caused by:" before it, this exception means that Spark itself has stopped: no file is the cause.
_STOPPED = "java.lang.IllegalStateException"
# The most characters of the cause in the reason of a refusal.
_MAX_CHARACTERS = 300


def unreadable_by_spark(session: SessionSource, files: Sequence[FileValidation]) -> list[tuple[FileValidation, str]]:
    """Read all files with Spark. Return each file that Spark cannot read for a reason in the file, with the cause."""
    by_schema: defaultdict[str, list[FileValidation]] = defaultdict(list)
    for file in files:
        by_schema[file.spark_schema].append(file)
    return [found for same_schema in by_schema.values() for found in _search(session(), same_schema)]


def _search(session: SparkSession, files: list[FileValidation]) -> list[tuple[FileValidation, str]]:
    """Bisect the files until each unreadable one is found."""
    failure = _failure(session, files)
    if failure is None:
        return []
    if len(files) > 1:
        half = len(files) // 2
        return _search(session, files[:half]) + _search(session, files[half:])
    second_failure = _failure(session, files)
    text = root_cause(second_failure) if second_failure else ""
    is_in_file = _FAULT_OF_A_FILE.search(text) and not text.startswith(_STOPPED)
    return [(files[0], text[:_MAX_CHARACTERS])] if is_in_file else []


def _failure(session: SparkSession, files: list[FileValidation]) -> Exception | None:
    """Read the files, which all have one schema, with Spark. Return the error; None if there is none."""
    session.sparkContext.setJobDescription(f"read {len(files)} landed files, to find what Spark cannot read")
    schema = StructType.fromJson(json.loads(files[0].spark_schema))
    try:
        read_files(session, schema, [file.file.uri for file in files]).write.format("noop").mode("overwrite").save()
    except SPARK_FAILURES as failure:
        return failure
    return None
