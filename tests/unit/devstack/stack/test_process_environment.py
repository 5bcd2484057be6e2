import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from dedup_clone.settings.deployment import read_deployment
from dedup_clone.warehouse.append_connection import ADDRESS_VARIABLE
from deploy.environment_settings import REPOSITORY
from devstack.stack import airflow_settings, client_config, process_environment, secret_keys
from devstack.stack.layout import Layout
from devstack.stack.ports import Ports
from devstack.stack.processes import STACK_VARIABLE

PORTS = Ports(gcs=11, gcs_for_gcloud=13, bigquery=14, airflow=15)


def layout_in(tmp_path: Path) -> Layout:
    layout = Layout.from_environment({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / "it's a folder")}, tmp_path)
    layout.make_folders()
    return layout


def built(tmp_path: Path, environ: dict[str, str]) -> dict[str, str]:
    layout = layout_in(tmp_path)
    return process_environment.build(layout, PORTS, secret_keys.load_or_make(layout), environ)


def test_settings_of_the_persons_own_airflow_do_not_leak_in(tmp_path: Path) -> None:
    theirs = {"AIRFLOW__CORE__EXECUTOR": "CeleryExecutor", "GOOGLE_APPLICATION_CREDENTIALS": "/key", "PYTHONPATH": "/x"}
    theirs["PGOPTIONS"] = "-c search_path=theirs"
    parts = built(tmp_path, {**theirs, "JAVA_HOME": "/java"})
    assert parts["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert not {"GOOGLE_APPLICATION_CREDENTIALS", "PGOPTIONS"} & parts.keys()
    assert "/x" not in parts["PYTHONPATH"].split(os.pathsep)
    assert parts["JAVA_HOME"] == "/java"


def test_everything_listens_and_asks_on_the_loopback_address_without_a_proxy(tmp_path: Path) -> None:
    parts = built(tmp_path, {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "corp.example"})
    assert parts["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert parts["NO_PROXY"] == "127.0.0.1,localhost,corp.example"


def test_parts_carry_the_marker_in_an_environment_that_stays_readable(tmp_path: Path) -> None:
    parts = built(tmp_path, {})
    assert parts[STACK_VARIABLE] == str(layout_in(tmp_path).local)
    assert parts["SPT_NOENV"] == "1"


def test_parts_find_the_programs_of_the_environment_first(tmp_path: Path) -> None:
    parts = built(tmp_path, {"PATH": "/usr/bin"})
    assert parts["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/usr/bin"]


def test_connections_are_what_airflow_reads(tmp_path: Path) -> None:
    parts = built(tmp_path, {})
    assert json.loads(parts["AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT"])["extra"]["is_anonymous"] is True
    assert json.loads(parts["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == "local[2]"


def test_connections_and_variables_of_the_shell_reach_airflow(
    tmp_path: Path,
) -> None:
    theirs = {"AIRFLOW_CONN_ALERTS_SLACK": "{}", "AIRFLOW_VAR_REGION": "eu", "AIRFLOW_CONN_SPARK_DEFAULT": "theirs"}
    parts = built(tmp_path, theirs)
    assert (parts["AIRFLOW_CONN_ALERTS_SLACK"], parts["AIRFLOW_VAR_REGION"]) == ("{}", "eu")
    assert parts["AIRFLOW_CONN_SPARK_DEFAULT"] != "theirs"


def test_tasks_stream_to_the_stand_in_and_find_the_uploaded_spark_code(tmp_path: Path) -> None:
    parts = built(tmp_path, {"BIGQUERY_STORAGE_EMULATOR_HOST": "theirs:1"})
    assert parts[ADDRESS_VARIABLE] == PORTS.bigquery_write_address
    assert parts["DEDUP_CLONE_SPARK_CODE"] == str(layout_in(tmp_path).spark_code)


def test_secret_keys_are_made_once(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    assert secret_keys.load_or_make(layout) == secret_keys.load_or_make(layout)
    assert (layout.airflow_home / "keys.json").stat().st_mode & 0o077 == 0


def test_local_settings_import_nothing_heavy_unless_asked(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    airflow_settings.write_files(layout)
    code = "import airflow_local_settings, sys; sys.exit('google.cloud.bigquery' in sys.modules)"
    variables = {"PYTHONPATH": str(layout.airflow_home / "config"), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", code], env=variables, check=True)


def test_shell_and_reader_agree_on_stack_env(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    client_config.write(layout, PORTS)
    command = f"set -a; . {shlex.quote(str(layout.stack_env))}; {shlex.quote(sys.executable)} -c "
    command += shlex.quote("import json, os; print(json.dumps(dict(os.environ)))")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    from_shell = json.loads(done.stdout)
    variables = client_config.read(layout.stack_env)
    assert variables == client_config.variables(layout, PORTS)
    assert variables.items() <= from_shell.items()


def test_stack_env_names_every_address_and_nothing_of_the_marker(tmp_path: Path) -> None:
    variables = client_config.variables(layout_in(tmp_path), PORTS)
    assert variables["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:11"
    assert variables["BIGQUERY_EMULATOR_HOST"] == "http://127.0.0.1:14"
    assert variables["AIRFLOW_URL"] == "http://127.0.0.1:15"
    assert variables["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] == "http://127.0.0.1:13/storage/v1/"
    # A shell that sourced it would otherwise be ended together with the stack.
    assert STACK_VARIABLE not in variables


def test_a_shell_with_stack_env_has_the_profile_of_the_stack(tmp_path: Path) -> None:
    variables = client_config.variables(layout_in(tmp_path), PORTS)
    profile = read_deployment(REPOSITORY / "dags" / "profiles", variables)
    assert (profile.project, profile.state_bucket) == (variables["PROJECT_ID"], variables["STATE_BUCKET"])


def test_client_tools_files_name_the_ports(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    client_config.write(layout, PORTS)
    assert "use_gcloud_storage" in Path(client_config.read(layout.stack_env)["BOTO_CONFIG"]).read_text()
    assert "api = http://127.0.0.1:14" in Path(client_config.read(layout.stack_env)["BIGQUERYRC"]).read_text()


def test_something_may_stand_in_front_of_storage_and_bigquery(tmp_path: Path) -> None:
    entrances = {
        process_environment.STORAGE_PROXY_VARIABLE: "http://127.0.0.1:1",
        process_environment.BIGQUERY_PROXY_VARIABLE: "http://127.0.0.1:2",
    }
    parts = built(tmp_path, entrances)
    assert (parts["STORAGE_EMULATOR_HOST"], parts["BIGQUERY_EMULATOR_HOST"]) == tuple(entrances.values())
    parts = built(tmp_path, {})
    assert (parts["STORAGE_EMULATOR_HOST"], parts["BIGQUERY_EMULATOR_HOST"]) == (PORTS.gcs_url, PORTS.bigquery_url)
