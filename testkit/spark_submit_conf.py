"""Passes a Spark configuration to spark-submit, or to a Python process that starts Spark itself."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping


def conf_arguments(conf: Mapping[str, str]) -> list[str]:
    """The arguments of spark-submit that set this configuration."""
    return [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]


def pyspark_environment(conf: Mapping[str, str]) -> dict[str, str]:
    """The environment variables from which PySpark takes this configuration in a process without spark-submit."""
    return {
        "PYSPARK_SUBMIT_ARGS": shlex.join([*conf_arguments(conf), "pyspark-shell"]),
        "PYSPARK_PYTHON": sys.executable,
    }
