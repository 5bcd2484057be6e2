"""Spark's Python daemon: the workers' imports are done once, before it forks the workers.

pyarrow imports pandas wherever that is installed, which takes two seconds of CPU time in every worker. Two more things
that a worker does around each task would take longer than a small task itself, and are turned off: reading the
directories of its zip archives again, once for every package in them, and garbage collection of all imported objects.
"""

from __future__ import annotations

import gc
from importlib import import_module
from zipimport import zipimporter

from pyspark.daemon import manager


def _keep_cached_directory(archive: zipimporter) -> None:
    """Do nothing: archives do not change during a job. Python 3.12 and later read them again only on import.

    https://github.com/python/cpython/issues/103200
    """


if __name__ == "__main__":
    import_module("pandas")
    import_module("dedup_spark.plans.dataframe.partition_writer")
    zipimporter.invalidate_caches = _keep_cached_directory  # type: ignore[assignment]
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]  # PySpark's daemon has no type hints
