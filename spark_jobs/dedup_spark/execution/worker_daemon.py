"""Spark's Python daemon on one machine: it imports what all workers need before it forks them.

pyarrow imports pandas wherever that is installed, which takes each worker as long as a small job. No public setting
makes the daemon import anything. Two more costs of each task are avoided: Python reads the directories of all archives
on its path again, and collects garbage among all imported objects.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

_PRELOADED = (
    "pandas",
    "google.cloud.storage",
    "dedup_spark.plans.fused_scan",
    "dedup_spark.plans.dataframe.dataframe_plan",
)


def main() -> None:
    """Run PySpark's daemon, from the installed packages: Spark puts archives of the same packages before them."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    for module in _PRELOADED:
        import_module(module)
    gc.collect()
    gc.freeze()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
