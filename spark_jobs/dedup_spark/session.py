"""The Spark session that the job's plans rely on. Master, memory and connectors are the submitter's business."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import dedup_clone
import dedup_spark

SESSION_CONF = {
    # The job sizes its one shuffle itself, and its tasks are its files: nothing is left for AQE to adapt.
    "spark.sql.adaptive.enabled": "false",
    # Rows lie by (date, bucket) before a join by key: that is enough to join without a second shuffle.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    # Dates and times mean what BigQuery reads, whichever calendar an old writer noted.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}


def start_session(application: str) -> SparkSession:
    builder = SparkSession.builder.appName(application)
    for key, value in {**SESSION_CONF, **_worker_path()}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _worker_path() -> dict[str, str]:
    """Workers import the packages from the folders that the driver did; a zip reaches them by --py-files."""
    roots = {str(Path(str(package.__file__)).parent.parent) for package in (dedup_clone, dedup_spark)}
    folders = sorted(root for root in roots if Path(root).is_dir())
    return {"spark.executorEnv.PYTHONPATH": ":".join(folders)} if folders else {}
