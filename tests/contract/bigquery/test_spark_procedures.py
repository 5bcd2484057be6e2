"""Stored procedures for Apache Spark: created, called, cancelled and killed through Google's client.

Rules are those of "Work with stored procedures for Apache Spark" and of CREATE PROCEDURE in "Data definition language".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from bigquery_standin.client import Control
from devstack.stack.ports import any_free_port
from testkit import waiting
from testkit.local_servers import launch_stand_in, stop_process
from tests.shared.stand_in_client import PROJECT, bigquery_client

DELEGATE, USE = "bigquery.connections.delegate", "bigquery.connections.use"
SLEEPS = "import os, pathlib, time\npathlib.Path({path!r}).write_text(str(os.getpid()))\ntime.sleep(600)"


@pytest.fixture(autouse=True)
def granted(control: Control) -> None:
    control.grant(DELEGATE)
    control.grant(USE)


def procedure(name: str, parameters: str = "", *, code: str | None = "pass", **options: str) -> str:
    options = {"engine": "'SPARK'", "runtime_version": "'2.3'", **options}
    listed = ", ".join(f"{option} = {value}" for option, value in options.items() if value)
    body = f" AS {json.dumps(code)}" if code is not None else ""
    return (
        f"CREATE OR REPLACE PROCEDURE {name}({parameters}) WITH CONNECTION `{PROJECT}.us.spark` "
        f"OPTIONS ({listed}) LANGUAGE PYTHON{body};"
    )


def children(client: bigquery.Client, parent: str) -> list[Any]:
    jobs = [client.get_job(job.job_id) for job in client.list_jobs(parent_job=parent)]
    return sorted(jobs, key=lambda job: job.job_id)


def wait_for(condition: Callable[[], Any]) -> Any:
    return waiting.wait_for(condition, "a procedure is where it should be", 60, poll_interval_s=0.05)


def has_ended(pid: int) -> bool:
    """Whether the process has ended, though nobody may have asked for its exit code yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_arguments_are_json_in_the_environment_of_a_program_on_cloud_storage(
    client: bigquery.Client, dataset: str, bucket: storage.Bucket, tmp_path: Path
) -> None:
    found = tmp_path / "found.json"
    bucket.blob("code/main.py").upload_from_string("import helper\nhelper.run()")
    bucket.blob("code/helper.py").upload_from_string(
        "import json, os\nfrom pyspark.sql import SparkSession\n"
        "def run():\n"
        "    spark = SparkSession.builder.getOrCreate()\n"
        "    given = {k: v for k, v in os.environ.items() if k.startswith('BIGQUERY_PROC_PARAM.')}\n"
        "    given['confirmed'] = spark.conf.get('spark.confirmed')\n"
        "    given['worker'] = spark.sparkContext.parallelize([0]).map(\n"
        "        lambda _: os.environ['BIGQUERY_PROC_PARAM.name']).collect()[0]\n"
        f"    open({str(found)!r}, 'w').write(json.dumps(given))"
    )
    options = {
        "main_file_uri": f"'gs://{bucket.name}/code/main.py'",
        "py_file_uris": f"['gs://{bucket.name}/code/helper.py']",
        "properties": "[('spark.confirmed', 'yes')]",
    }
    parameters = "name STRING, n INT64, days ARRAY<DATE>, none STRING"
    script = procedure(f"{dataset}.p", parameters, code=None, **options)
    call = f"CALL {dataset}.p(@name, 1 + 2, [DATE '2026-03-01'], NULL);"
    named = bigquery.ScalarQueryParameter("name", "STRING", "a\"b'\n$HOME")
    job = client.query(script + call, job_config=bigquery.QueryJobConfig(query_parameters=[named]))
    job.result()
    assert json.loads(found.read_text()) == {
        "BIGQUERY_PROC_PARAM.name": json.dumps("a\"b'\n$HOME"),
        "BIGQUERY_PROC_PARAM.n": "3",
        "BIGQUERY_PROC_PARAM.days": '["2026-03-01"]',
        "BIGQUERY_PROC_PARAM.none": "null",
        "confirmed": "yes",
        "worker": json.dumps("a\"b'\n$HOME"),
    }
    created, called = children(client, job.job_id)
    assert (created.statement_type, created.ddl_operation_performed) == ("CREATE_PROCEDURE", "CREATE")
    assert called.statement_type == "CALL"
    assert called._properties["statistics"]["query"]["sparkStatistics"]["sparkJobLocation"] == "US"


def test_a_program_that_fails_fails_its_job_with_its_last_error(client: bigquery.Client, dataset: str) -> None:
    job = client.query(procedure(f"{dataset}.p", code="raise ValueError('no such thing')") + f"CALL {dataset}.p()")
    with pytest.raises(exceptions.BadRequest, match="ValueError: no such thing"):
        job.result()
    ended = client.get_job(job.job_id)
    assert ended.error_result["reason"] == "invalidQuery"
    assert children(client, job.job_id)[1].error_result == ended.error_result


def test_a_cancelled_job_ends_its_program(client: bigquery.Client, dataset: str, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    job = client.query(procedure(f"{dataset}.p", code=SLEEPS.format(path=str(path))) + f"CALL {dataset}.p()")
    pid = int(wait_for(lambda: path.exists() and path.read_text()))
    assert client.get_job(job.job_id).state == "RUNNING"
    client.cancel_job(job.job_id)
    wait_for(lambda: has_ended(pid))
    job = wait_for(lambda: (found := client.get_job(job.job_id)).state == "DONE" and found)
    assert job.error_result["reason"] == "stopped"


def test_a_killed_stand_in_leaves_no_spark_behind(object_store: str, tmp_path: Path) -> None:
    path, port = tmp_path / "pid", any_free_port()
    process = launch_stand_in(tmp_path, object_store, port)
    client, control = bigquery_client(f"127.0.0.1:{port}"), Control(f"127.0.0.1:{port}")
    try:
        control.grant(DELEGATE)
        control.grant(USE)
        client.create_dataset("d")
        job = client.query(procedure("d.p", code=SLEEPS.format(path=str(path))) + "CALL d.p()")
        wait_for(lambda: path.exists() and path.read_text())
        started = psutil.Process(process.pid).children(recursive=True)
        assert len(started) >= 3  # the guard, the JVM and the program
        process.kill()
        process.wait()
        wait_for(lambda: all(has_ended(each.pid) for each in started))
        process = launch_stand_in(tmp_path, object_store, port)
        ended = client.get_job(job.job_id)
        assert (ended.state, ended.error_result["reason"]) == ("DONE", "backendError")
        assert client.get_routine(f"{PROJECT}.d.p").body
    finally:
        stop_process(process)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": ""}, r"has engine \[\], expected \[SPARK\]"),
        ({"runtime_version": "'latest'"}, r"runtime_version \[latest\], expected one such as \[2.3\]"),
        ({"main_file_uri": "'gs://b/main.py'"}, "either the option main_file_uri or code after AS, not both"),
        ({"code": None}, "either the option main_file_uri or code after AS, not both"),
        (
            {"properties": "[('spark.yarn.am.memory', '3g')]"},
            r"Attempted to set unsupported properties: \[spark:spark.yarn.am.memory\]",
        ),
        ({"py_file_uris": "['/tmp/x.py']"}, r"\[/tmp/x.py\] is not a Google Cloud Storage object"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_options_that_do_not_fit_are_refused_before_a_procedure_is_made(
    client: bigquery.Client, dataset: str, change: dict[str, Any], message: str, dry_run: bool
) -> None:
    with pytest.raises(exceptions.BadRequest, match=message):
        client.query(procedure(f"{dataset}.p", **change), job_config=bigquery.QueryJobConfig(dry_run=dry_run)).result()
    assert list(client.list_routines(dataset)) == []


def test_the_connection_must_be_in_the_location_of_the_procedure(client: bigquery.Client, dataset: str) -> None:
    script = procedure(f"{dataset}.p").replace(".us.", ".eu.")
    with pytest.raises(exceptions.BadRequest, match=r"is in location \[US\], its connection in \[eu\]"):
        client.query(script).result()


def test_arguments_that_do_not_fit_are_refused(client: bigquery.Client, dataset: str) -> None:
    client.query(procedure(f"{dataset}.p", "n INT64")).result()
    for call, message in (("()", r"called with \[0\] arguments, expected \[1\]"), ("('x')", "cannot be inserted")):
        with pytest.raises(exceptions.BadRequest, match=message):
            client.query(f"CALL {dataset}.p{call}").result()
    with pytest.raises(exceptions.NotFound, match="Not found: Routine"):
        client.query(f"CALL {dataset}.q(1)").result()


def test_connections_need_permissions_that_a_data_owner_lacks(
    client: bigquery.Client, dataset: str, control: Control
) -> None:
    """Creating needs connections.delegate, calling connections.use: roles of the connection, not of the dataset."""
    control.clear_grants()
    with pytest.raises(exceptions.Forbidden, match=DELEGATE):
        client.query(procedure(f"{dataset}.p")).result()
    control.grant(DELEGATE)
    client.query(procedure(f"{dataset}.p")).result()
    with pytest.raises(exceptions.Forbidden, match=USE):
        client.query(f"CALL {dataset}.p()").result()


def test_a_procedure_is_shown_replaced_and_dropped(client: bigquery.Client, dataset: str) -> None:
    script = procedure(f"{dataset}.p", "request STRING", code=None, main_file_uri="'gs://b/main.py'")
    for _ in range(2):
        client.query(script).result()
    (listed,) = client.list_routines(dataset)
    routine = client.get_routine(listed.reference)
    assert [(argument.name, argument.data_type.type_kind) for argument in routine.arguments] == [("request", "STRING")]
    assert routine._properties["sparkOptions"]["mainFileUri"] == "gs://b/main.py"
    with pytest.raises(exceptions.Conflict):
        client.query(script.replace(" OR REPLACE", "")).result()
    with pytest.raises(exceptions.BadRequest, match="still in use"):
        client.delete_dataset(dataset)
    client.query(f"DROP PROCEDURE {dataset}.p").result()
    assert list(client.list_routines(dataset)) == []
