"""Spark's Python daemon on one machine: it imports what all workers need before it forks them.

pyarrow imports pandas wherever that is installed, which takes each worker two seconds of CPU time: as long as a small
job. No public setting makes the daemon import anything. Frozen objects are left out of the garbage collection with
which a worker ends each task.
"""

from __future__ import annotations

import gc
from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    import_module("pandas")
    import_module("dedup_spark.plans.dataframe.partition_writer")
    import_module("dedup_spark.plans.fused_scan")
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]  # PySpark's daemon has no type hints
