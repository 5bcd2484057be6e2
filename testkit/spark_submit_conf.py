"""Passes Spark configuration to a process: to spark-submit, or to a Python process that starts Spark itself."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping


def conf_arguments(conf: Mapping[str, str]) -> list[str]:
    """Arguments of spark-submit that set this configuration."""
    return [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]


def pyspark_environment(conf: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of a Python process that starts Spark without spark-submit, with this configuration."""
    return {
        "PYSPARK_SUBMIT_ARGS": shlex.join([*conf_arguments(conf), "pyspark-shell"]),
        "PYSPARK_PYTHON": sys.executable,
    }
