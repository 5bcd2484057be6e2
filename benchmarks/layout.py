"""Where the benchmarks keep what they make, and the peers' Python environment."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
WORK = Path(os.environ.get("DEDUP_CLONE_BENCHMARKS_DIR", CHECKOUT / ".local/benchmarks"))
DATA = WORK / "data"
RUNS = WORK / "runs"
# Results of the default sizes are part of the repository: the tables in docs are made from them.
RESULTS = CHECKOUT / "benchmarks/results"
QUICK_RESULTS = WORK / "results"

PEERS_PYTHON = CHECKOUT / ".venv-bench/bin/python"


def python_path() -> str:
    """For a process that runs the product, or this package."""
    folders = (CHECKOUT / "spark_jobs", CHECKOUT / "plugins", CHECKOUT)
    return os.pathsep.join(str(folder) for folder in folders)
