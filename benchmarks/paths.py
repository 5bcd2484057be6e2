"""Paths of the benchmarks' data and results, and of the peers' Python environment."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
WORK = Path(os.environ.get("DEDUP_CLONE_BENCHMARKS_DIR", CHECKOUT / ".local/benchmarks"))
DATA = WORK / "data"
RUNS = WORK / "runs"
# Results with the default sizes are part of the repository, because sub-command `model` and tests of docs/ read them.
RESULTS = CHECKOUT / "benchmarks/results"
OTHER_SIZE_RESULTS = WORK / "results"

PEERS_PYTHON = CHECKOUT / ".venv-bench/bin/python"


def pythonpath_variable() -> str:
    """The value of PYTHONPATH for a process that imports dedup_clone, dedup_spark or this package."""
    folders = (CHECKOUT / "spark_jobs", CHECKOUT / "plugins", CHECKOUT)
    return os.pathsep.join(str(folder) for folder in folders)
