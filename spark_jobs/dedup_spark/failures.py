"""What PySpark raises when the Java side failed."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no type hints
from pyspark.errors import PySparkException

# Spark translates the errors it knows and lets py4j's own error through for the others.
SPARK_FAILURES: tuple[type[Exception], ...] = (PySparkException, Py4JJavaError)


def cause(error: Exception) -> str:
    """The innermost cause that the error's text names, as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or [type(error).__name__])[-1]
