"""A release changes what differs and leaves everybody else's objects alone; DAGs work from the tree that it lays."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.cloud.storage import Blob

from dedup_clone.contract.errors import ConfigurationError, LostRace
from deploy.release.release_content import make_release
from testkit.local_servers import REPOSITORY
from tests.contract.release.conftest import ReleaseSetup

SWAP = "sql/publish/swap_target.sql"


def test_a_second_release_changes_only_what_was_edited_in_the_repository_or_the_bucket(setup: ReleaseSetup) -> None:
    (setup.repository / "dags" / "__pycache__").mkdir()
    (setup.repository / "dags" / "__pycache__" / "publish.cpython-311.pyc").write_bytes(b"")
    assert {action for action, _ in setup.deploy()} == {"create"}
    names, environment = setup.buckets.names(), setup.buckets.environment
    assert {
        environment.uri("dags/sql/engines/bigquery/qualify.sql.jinja"),
        environment.uri("plugins/.airflowignore"),
    } <= names
    assert not any("__pycache__" in name for name in names)
    record = environment.read("dags/spark_code.json")
    assert record is not None
    assert set(json.loads(record.text).values()) <= names
    assert setup.deploy() == []
    statement = setup.repository / SWAP
    statement.write_text(statement.read_text() + "-- a remark\n")
    assert setup.deploy() == [("replace", environment.uri(f"dags/{SWAP}"))]
    stored = environment.read(f"dags/{SWAP}")
    assert stored is not None
    assert stored.text == statement.read_text()
    environment.put("dags/publish.py", "print('edited in the bucket')")
    assert setup.deploy() == [("replace", environment.uri("dags/publish.py"))]


def test_what_left_the_repository_leaves_the_bucket_and_foreign_objects_stay(setup: ReleaseSetup) -> None:
    environment = setup.buckets.environment
    environment.put("dags/publish.py", "print('another DAG')")
    with pytest.raises(ConfigurationError, match=r"dags/publish\.py.*TAKE_OVER=1"):
        setup.deploy()
    assert setup.buckets.names() == {environment.uri("dags/publish.py")}
    assert ("replace", environment.uri("dags/publish.py")) in setup.deploy(take_over=True)
    environment.put("dags/of_another_team.py", "print()")
    (setup.repository / "dags" / "rollback.py").unlink()
    assert setup.deploy() == [("delete", environment.uri("dags/rollback.py"))]
    assert environment.uri("dags/of_another_team.py") in setup.buckets.names()


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch) -> Uploads:
    recorded = Uploads()
    upload = Blob.upload_from_string

    def record(blob: Blob, *arguments: Any, **options: Any) -> None:
        recorded.add(blob.name)
        upload(blob, *arguments, **options)

    monkeypatch.setattr(Blob, "upload_from_string", record)
    return recorded


class Uploads:
    """The names of the uploaded objects, in order. `fail_at`: beginning of a name; the upload of such objects fails."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.fail_at = ""

    def add(self, name: str) -> None:
        if self.fail_at and name.startswith(self.fail_at):
            raise ConnectionError("the line is dead")
        self.names.append(name)


def test_dags_come_after_everything_that_they_read(setup: ReleaseSetup, uploads: Uploads) -> None:
    setup.deploy()
    parts = [re.sub(r"^(spark-code|plugins|dags/sql|dags).*", r"\1", name) for name in uploads.names]
    order = [part for part, _ in itertools.groupby(part.replace("dags/sql", "plugins") for part in parts)]
    assert order == ["dedup-clone/deployed.json", "spark-code", "plugins", "dags", "dedup-clone/deployed.json"]


def test_a_release_that_died_is_finished_by_the_next(setup: ReleaseSetup, uploads: Uploads) -> None:
    uploads.fail_at = "dags/publish.py"
    with pytest.raises(ConnectionError):
        setup.deploy()
    uploads.fail_at = ""
    (setup.repository / SWAP).write_text("SELECT 1\n")
    changed = setup.deploy()  # the edited file was laid already, and is known as ours
    assert ("replace", setup.buckets.environment.uri(f"dags/{SWAP}")) in changed
    assert setup.deploy() == []


def test_of_two_releases_at_once_the_later_is_refused(setup: ReleaseSetup) -> None:
    late = setup.release()
    plan = late.plan()
    setup.deploy()
    with pytest.raises(LostRace):
        late.apply(plan)


def test_spark_code_stays_for_runs_that_were_started_with_it(setup: ReleaseSetup) -> None:
    def spark_objects() -> int:
        return sum("/spark-code/" in name for name in setup.buckets.names())

    def edit(text: str) -> set[str]:
        job = setup.repository / "spark_jobs" / "dedup_spark" / "__init__.py"
        job.write_text(f'"""{text}"""\n')
        return {action for action, _ in setup.deploy()}

    setup.deploy()
    laid_by_one = spark_objects()
    assert "delete" not in edit("second")
    of_two = spark_objects()
    assert of_two > laid_by_one
    assert setup.deploy() == []
    assert "delete" in edit("third")
    assert spark_objects() == of_two


def test_a_file_of_a_kind_that_nobody_reads_is_named(setup: ReleaseSetup) -> None:
    (setup.repository / "dags" / "publish.py.orig").write_text("")
    with pytest.raises(ConfigurationError, match=r"publish\.py\.orig"):
        setup.release()


PARSE_AND_RENDER = """
import json, socket, sys
from pathlib import Path
import airflow.providers.google.cloud.triggers.bigquery
from airflow.dag_processing.dagbag import DagBag
before = set(sys.modules)
def refuse(*args, **kwargs):
    raise AssertionError("a DAG file used the network while it was parsed")
socket.socket.connect = socket.getaddrinfo = refuse
dags = Path(sys.argv[1])
bag = DagBag(str(dags))
parsed = sorted(set(sys.modules) - before)
import dedup_clone
from dedup_clone.orchestration.setup import find_folders
from dedup_clone.settings.feed import read_feed
from dedup_clone.warehouse.sql_files import TableNames, render

folders = find_folders(dags)
names = TableNames("project", "dataset", "staging", "target")
feed = read_feed(folders.feeds / "product_attributes.yaml")
statements = sorted(path.relative_to(folders.sql).as_posix() for path in folders.sql.rglob("*.sql"))
table = feed.table.to_contract()
values = {"table": table, "column": table.columns[0], "sources": (), "options": feed.table.options, "has_parent": True}
values |= {"named": table, "form": feed.form, "expected": "", "previous_days": 0}
rendered = {name: render(folders.sql, name, names=names, **values) for name in statements}
print(json.dumps({
    "library": dedup_clone.__file__,
    "errors": bag.import_errors,
    "imported": parsed,
    "dags": sorted(bag.dags),
    "misconfigured": [d.doc_md for d in bag.dags.values() if "configuration error" in d.tags],
    "sql": str(folders.sql),
    "statements": statements,
    "swap": rendered["publish/swap_target.sql"],
}))
"""


HEAVY = {"pyspark", "pandas", "numpy", "pyarrow", "duckdb", "sqlglot"}


def lay_tree(root: Path) -> None:
    """Write the environment's bucket as a worker sees it."""
    for item in make_release(REPOSITORY, environment_bucket="environment", state_bucket="state"):
        if item.bucket == "environment":
            path = root / item.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(item.content)


def test_dags_parse_without_network_and_heavy_modules_render_and_find_their_sql(tmp_path: Path) -> None:
    tree = tmp_path / "environment"
    lay_tree(tree)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW__", "STORAGE_"))},
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(tree / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(tree / "plugins"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "DEDUP_CLONE_PROFILE": "gcp",
        "PYTHONPATH": str(tree / "plugins"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PARSE_AND_RENDER, str(tree / "dags")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])

    assert seen["errors"] == {}
    assert seen["misconfigured"] == []
    assert seen["library"].startswith(str(tree))
    assert "dedup_clone.orchestration.setup" in seen["imported"]
    assert HEAVY & {module.split(".")[0] for module in seen["imported"]} == set()
    feeds = sorted(path.stem for path in (REPOSITORY / "dags" / "feeds").glob("*.yaml"))
    for feed in feeds:
        assert {f"{feed}_watch", f"{feed}_publish", f"{feed}_rollback"} <= set(seen["dags"])
    assert seen["sql"] == str(tree / "dags" / "sql")
    assert seen["statements"] == sorted(
        path.relative_to(REPOSITORY / "sql").as_posix() for path in (REPOSITORY / "sql").rglob("*.sql")
    )
    assert "CLONE `project.dataset.staging` FOR SYSTEM_TIME AS OF @checked_at" in seen["swap"]
