"""Which engine deduplicates. All give the same table."""

from __future__ import annotations

from enum import StrEnum


class Engine(StrEnum):
    """SPARK reads files and scans no table; BIGQUERY is the published QUALIFY statement; MERGE is the baseline."""

    SPARK = "spark"
    BIGQUERY = "bigquery"
    MERGE = "merge"
