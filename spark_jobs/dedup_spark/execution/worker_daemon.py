"""Runs PySpark's daemon, which forks the Python workers of one machine, after importing what all of them need.

Otherwise each worker imports it: pandas alone, which pyarrow imports if it is installed, takes as long as a small job.
No setting makes PySpark's own daemon import anything. Two more costs of each task are avoided: archives are removed
from Python's path, because Python would read their directories again, and garbage collection skips what was imported
here.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

_PRELOADED = (
    "pandas",
    "google.cloud.storage",
    "dedup_spark.dispatch",
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
