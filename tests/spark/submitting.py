"""Spark's settings on their way: to spark-submit's command line, or to the JVM that PySpark starts by itself."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping


def options(conf: Mapping[str, str]) -> list[str]:
    """Arguments of spark-submit."""
    return [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]


def environment(conf: Mapping[str, str]) -> dict[str, str]:
    """Of a process that starts Spark without spark-submit, and whose workers run this Python."""
    return {"PYSPARK_SUBMIT_ARGS": shlex.join([*options(conf), "pyspark-shell"]), "PYSPARK_PYTHON": sys.executable}
