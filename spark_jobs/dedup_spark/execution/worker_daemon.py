"""Runs Spark's Python daemon on one machine, which imports what all workers need before it forks them.

pyarrow imports pandas where it is installed, and in each worker that would take as long as a small job. No public
setting makes Spark's own daemon import anything. Two more costs of each task are avoided: Python would read the
directories of all archives on its path again, and would search all imported objects for garbage.
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
    """Run PySpark's daemon with the installed packages, not with their archives, which Spark puts first on the path."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    for module in _PRELOADED:
        import_module(module)
    gc.collect()
    gc.freeze()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
