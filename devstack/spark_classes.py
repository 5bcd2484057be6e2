"""Archives the classes that Spark loads at its start: `python -m devstack.spark_classes`.

Java maps the archive into memory instead of reading, verifying and linking thousands of classes. That halves the CPU
time of a small job. Java ignores an archive that another version of Java made, or that was made from other jars. See
"Class Data Sharing" in the Java documentation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dedup_clone.orchestration.runners.local_spark_conf import JAVA_OPTIONS, class_archive, local_spark_conf
from devstack.stack.layout import package_folder


def make_archive(path: Path) -> None:
    """Run a small Spark job that loads the same classes as the dedup job, and write these classes to `path`.

    Raises RuntimeError with Spark's output if the job failed or Java wrote no archive.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        archive = Path(folder) / path.name
        options = f"-XX:ArchiveClassesAtExit={archive} -Xlog:cds=error -Xlog:cds+dynamic=error"
        conf = {
            **local_spark_conf(),
            "spark.master": "local[2]",
            "spark.python.daemon.module": "pyspark.daemon",
            "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {options}",
        }
        settings = (text for key, value in conf.items() for text in ("--conf", f"{key}={value}"))
        submit = package_folder("pyspark", "pyspark") / "bin" / "spark-submit"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [str(submit), *settings, __file__, "job"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not archive.is_file():
            raise RuntimeError(f"Java wrote no archive of Spark's classes: {(done.stdout + done.stderr)[-3000:]}")
        archive.replace(path)


def run_job() -> None:
    """The small job: a task in Python over Arrow batches, and a shuffle."""
    from pyspark.sql import SparkSession

    def unchanged(batches: Iterable[Any]) -> Iterable[Any]:
        return batches

    session = SparkSession.builder.appName("classes").getOrCreate()
    session.range(0, 4, 1, 2).mapInArrow(unchanged, "id bigint").repartition(2, "id").collect()
    session.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["job"]:
        run_job()
    else:
        make_archive(class_archive())
