"""Spark's Python daemon for one machine: the writer's imports are done once, before it forks the workers.

pyarrow imports pandas wherever that is installed, which takes two seconds of CPU time in every worker.
"""

from __future__ import annotations

from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    import_module("pandas")
    import_module("dedup_spark.writer")
    manager()  # type: ignore[no-untyped-call]  # PySpark's daemon has no type hints
