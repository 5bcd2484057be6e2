"""Airflow's own BigQueryInsertJobOperator, synchronous, with an anonymous connection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.cloud import bigquery

from testkit.local_servers import REPOSITORY
from tests.shared.stand_in_client import PROJECT

pytest.importorskip("airflow.providers.google", reason="the Google provider of Airflow is not installed")

RUN_OPERATOR = """
import json, sys, types
from airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator
job = json.loads(sys.argv[1])
operator = BigQueryInsertJobOperator(
    task_id="insert", configuration=job["configuration"], project_id=job["project"], location="US",
    job_id=job["job_id"], force_rerun=False, deferrable=False, durable=False,
)
task = types.SimpleNamespace(xcom_push=lambda **_: None)
print("job", operator.execute({"ti": task, "task_instance": task}))
"""


def run_operator(folder: Path, stand_in: str, sql: str, job_id: str) -> subprocess.CompletedProcess[str]:
    """Runs the operator in a new process, because Airflow reads its environment on import."""
    connection = {"conn_type": "google_cloud_platform", "extra": {"project": PROJECT, "is_anonymous": True}}
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": json.dumps(connection),
        "BIGQUERY_EMULATOR_HOST": f"http://{stand_in}",
    }
    configuration = {"query": {"query": sql, "useLegacySql": False}}
    job = {"configuration": configuration, "project": PROJECT, "job_id": job_id}
    command = [sys.executable, "-c", RUN_OPERATOR, json.dumps(job)]
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_operator_runs_a_script_and_reports_its_job(
    tmp_path: Path, stand_in: str, client: bigquery.Client, dataset: str
) -> None:
    sql = f"ASSERT TRUE AS 'never'; CREATE TABLE {dataset}.made AS SELECT 1 AS n;"
    done = run_operator(tmp_path, stand_in, sql, f"operator_{dataset}")
    assert done.returncode == 0, done.stderr[-3000:]
    job_id = done.stdout.split("job ")[-1].strip()
    assert client.get_job(job_id).state == "DONE"
    assert client.get_table(f"{dataset}.made").num_rows == 1


@pytest.mark.exhaustive
def test_operator_fails_with_the_message_of_a_failed_assertion(tmp_path: Path, stand_in: str, dataset: str) -> None:
    done = run_operator(tmp_path, stand_in, "ASSERT FALSE AS 'target moved on'; SELECT 1;", f"failing_{dataset}")
    assert done.returncode != 0
    assert "target moved on" in done.stderr + done.stdout
