"""The command line tool `bq` with the stand-in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.cloud import bigquery

from tests.shared.stand_in_client import PROJECT, TODAY, load_rows, make_table

pytestmark = pytest.mark.skipif(shutil.which("bq") is None, reason="the tool bq is not installed")


class Bq:
    def __init__(self, folder: Path, address: str) -> None:
        token = folder / "token"
        token.write_text("local\n")
        configuration = folder / "gcloud"
        configuration.mkdir()
        self._environment = {
            **os.environ,
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
            "CLOUDSDK_CONFIG": str(configuration),
            "HOME": str(folder),
        }
        self._options = [f"--api=http://{address}", f"--project_id={PROJECT}", "--format=json", "--quiet"]

    def run(self, *arguments: str) -> str:
        command = ["bq", *self._options, *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments))


@pytest.fixture
def bq(tmp_path: Path, stand_in: str) -> Bq:
    return Bq(tmp_path, stand_in)


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    make_table(client, f"{dataset}.t")
    load_rows(client, f"{dataset}.t", [(TODAY, key, 1) for key in range(3)])
    return f"{dataset}.t"


@pytest.mark.exhaustive
def test_show_gives_table_dataset_and_job(bq: Bq, client: bigquery.Client, table: str, dataset: str) -> None:
    shown = bq.json("show", table)
    assert (shown["numRows"], shown["timePartitioning"]["field"]) == ("3", "day")
    assert bq.json("show", dataset)["datasetReference"]["datasetId"] == dataset
    job = client.query("SELECT 1")
    job.result()
    assert bq.json("show", "-j", job.job_id)["status"]["state"] == "DONE"


def test_query_prints_rows(bq: Bq, table: str) -> None:
    found = bq.json("query", "--nouse_legacy_sql", f"SELECT COUNT(*) AS n, MAX(day) AS newest FROM {table}")
    assert found == [{"n": "3", "newest": f"{TODAY}"}]


@pytest.mark.exhaustive
def test_query_takes_parameters_and_dry_runs(bq: Bq, table: str) -> None:
    found = bq.json("query", "--nouse_legacy_sql", "--parameter=x:INT64:5", "SELECT @x + 1 AS n")
    assert found == [{"n": "6"}]
    dry = bq.json("query", "--nouse_legacy_sql", "--dry_run", f"SELECT id FROM {table}")
    assert dry["statistics"]["totalBytesProcessed"] == "24"


@pytest.mark.exhaustive
def test_lists_name_datasets_tables_and_jobs(bq: Bq, table: str, dataset: str) -> None:
    assert dataset in {item["datasetReference"]["datasetId"] for item in bq.json("ls")}
    assert [item["tableReference"]["tableId"] for item in bq.json("ls", dataset)] == ["t"]
    assert bq.json("ls", "-j", "-n", "3")


@pytest.mark.exhaustive
def test_head_prints_rows(bq: Bq, table: str) -> None:
    assert len(bq.json("head", "-n", "2", table)) == 2


@pytest.mark.exhaustive
def test_tables_can_be_made_changed_and_removed(bq: Bq, dataset: str) -> None:
    name = f"{dataset}.made"
    bq.run("mk", "-t", "--time_partitioning_field=day", "--clustering_fields=id", name, "day:DATE,id:INTEGER")
    bq.run("update", "--set_label", "team:data", name)
    shown = bq.json("show", name)
    assert (shown["labels"], shown["clustering"]["fields"]) == ({"team": "data"}, ["id"])
    bq.run("rm", "-f", "-t", name)
    assert bq.run("ls", dataset).strip() in ("", "[]")
