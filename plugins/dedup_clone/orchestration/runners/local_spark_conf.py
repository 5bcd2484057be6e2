"""Spark settings of the local stack, which runs Spark in one process beside a storage emulator."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from urllib.parse import urlsplit

from dedup_clone.contract.errors import ConfigurationError

# These options save a third of the CPU time of jobs of up to a million rows, whose time is mostly the start of the JVM.
# From about ten million rows on, the optimizing compiler saves more: set other options in the Spark connection then.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def emulator_spark_conf(storage_host: str) -> dict[str, str]:
    """Settings that let Spark read and write `gs://` on the storage emulator at `storage_host` (`http://host:port`).

    Raises ConfigurationError if `storage_host` has another form, or if the connector is not installed.
    """
    address = urlsplit(storage_host)
    if address.scheme not in ("http", "https") or not address.netloc:
        raise ConfigurationError(
            f"Storage emulator is [{storage_host}], expected [http://host:port]: correct STORAGE_EMULATOR_HOST."
        )
    return {
        "spark.executor.extraClassPath": connector_jar(),
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        "spark.hadoop.fs.gs.storage.root.url": f"{address.scheme}://{address.netloc}/",
        "spark.hadoop.fs.gs.auth.service.account.enable": "false",
        "spark.hadoop.fs.gs.auth.null.enable": "true",
        "spark.hadoop.fs.gs.project.id": "local",
    }


def local_spark_conf(driver_memory: str = "2g") -> dict[str, str]:
    """Settings of Spark in one process: quick to start, and reachable from this machine only.

    Raises ConfigurationError if the connector is not installed.
    """
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:SharedArchiveFile={class_archive()}",
        # Java uses the archive above only if the class path is as it was at the archive's creation: with this file.
        "spark.driver.extraClassPath": connector_jar(),
        # Driver and workers use the Python that runs this code, not the first one on PATH.
        "spark.pyspark.python": sys.executable,
        # A module of the job, which Spark finds because the job's folder is on PYTHONPATH.
        "spark.python.daemon.module": "dedup_spark.execution.worker_daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def class_archive() -> Path:
    """Where `make setup` puts the archive of the classes that Spark loads. Java does without it if it is missing."""
    return Path(sys.prefix) / "share" / "spark-classes.jsa"


def connector_jar() -> str:
    """The path of Google's connector for Spark, in the package pyspark-gcs (which is not imported).

    Raises ConfigurationError if it is not installed.
    """
    package = importlib.util.find_spec("pyspark_gcs")
    folder = Path(package.origin).parent / "jars" if package and package.origin else None
    jars = sorted(folder.glob("gcs-connector-*.jar")) if folder else []
    if not jars:
        raise ConfigurationError(
            "The GCS connector for Spark was not found: expected jars/gcs-connector-*.jar of the package "
            "[pyspark-gcs]; install the locked requirements."
        )
    return str(jars[-1])
