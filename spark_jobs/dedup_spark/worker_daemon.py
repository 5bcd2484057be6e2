"""Spark's Python daemon for one machine: the writer's imports are done once, before it forks the workers.

pyarrow imports pandas wherever that is installed, which takes two seconds of CPU time in every worker. And two things
that a worker does around each task would take longer than a small task itself: reading the directories of all zip
archives it imports from again, once for every package in them, and looking through all imported objects for garbage.
"""

from __future__ import annotations

import gc
from importlib import import_module
from zipimport import zipimporter

from pyspark.daemon import manager


def _keep_directory(archive: zipimporter) -> None:
    """Archives do not change below a running job. Python 3.12 and later read them again only when asked for a module.

    https://github.com/python/cpython/issues/103200
    """


if __name__ == "__main__":
    import_module("pandas")
    import_module("dedup_spark.writer")
    zipimporter.invalidate_caches = _keep_directory  # type: ignore[assignment]
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]  # PySpark's daemon has no type hints
