"""The job from the files that are shipped, as a cluster runs them: a main file and a zip, and no source tree."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.orchestration.runners.local_spark_conf import local_spark_conf
from dedup_spark import storage
from devstack.spark_archive import ARCHIVE_FILE, MAIN_FILE, build_spark_code
from testkit.spark_job_feed import SparkJobFeed
from testkit.spark_submit_conf import conf_arguments
from testkit.table_contracts import PRODUCTS

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[2]
NAMES = ("date", "product_id", "store_id", "attribute_id", "attr_value", "update_id")


def test_driver_and_workers_import_from_the_shipped_files(tmp_path: Path) -> None:
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)
    rows = [dict(zip(NAMES, (date(2026, 3, 1), 7, 1, 1, value, 5), strict=True)) for value in (1, 2)]
    attempt = replace(area.attempt([area.land(5, rows)]), plan=Plan.WINDOW)  # it writes in Python workers
    code, shipped = build_spark_code(REPOSITORY), tmp_path / "shipped"
    shipped.mkdir()
    (shipped / MAIN_FILE).write_bytes(code.main)
    (shipped / ARCHIVE_FILE).write_bytes(code.archive)
    request_uri = storage.join(attempt.folder_uri, "attempt.json")
    storage.write_text(request_uri, to_json(attempt))
    # The stack's own settings, but for its Python daemon, which it finds on the path of a source tree.
    conf = {k: v for k, v in local_spark_conf("1g").items() if k != "spark.python.daemon.module"}
    folder = Path(sys.executable).parent
    program = [str(folder / "spark-submit"), "--master", "local[2]", *conf_arguments(conf)]
    command = [*program, "--py-files", ARCHIVE_FILE, MAIN_FILE]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [*command, "--request", request_uri], cwd=shipped, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    uri = storage.join(attempt.folder_uri, "candidate.json")
    candidate = from_json(Candidate, storage.read_text(uri), where=uri)
    assert candidate.manifest
    assert (candidate.manifest.rows, candidate.manifest.dates[0].ties) == (1, 1)
