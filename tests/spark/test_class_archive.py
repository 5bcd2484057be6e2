"""The archive of Spark's classes that `make setup` leaves to the local runner."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dedup_clone.orchestration.runners.local_spark_conf import class_archive, local_spark_conf
from devstack.spark_classes import make_archive
from testkit.spark_submit_conf import conf_arguments

pytestmark = pytest.mark.exhaustive


def test_java_takes_sparks_classes_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, loaded, application = tmp_path / "classes.jsa", tmp_path / "loaded.txt", tmp_path / "application.py"
    make_archive(archive)
    application.write_text("from pyspark import SparkContext\nSparkContext()\n")
    conf = {**local_spark_conf(), "spark.master": "local[1]"}
    options = conf["spark.driver.extraJavaOptions"].replace(str(class_archive()), str(archive))
    conf["spark.driver.extraJavaOptions"] = f"{options} -Xlog:class+load:file={loaded}"
    spark = find_spec("pyspark")
    assert spark
    assert spark.origin
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    submit = Path(spark.origin).parent / "bin" / "spark-submit"
    subprocess.run([submit, *conf_arguments(conf), application], check=True, capture_output=True)
    (context,) = [line for line in loaded.read_text().splitlines() if " org.apache.spark.SparkContext source:" in line]
    assert "shared objects file" in context
