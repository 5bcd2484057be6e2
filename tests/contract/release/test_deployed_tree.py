"""The DAGs work from the tree that a release lays: dags/ and plugins/ of the environment's bucket and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from deploy.release.release_content import make_release
from testkit.local_servers import REPOSITORY

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
values |= {"form": feed.form, "expected": "", "previous_days": 0}
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
