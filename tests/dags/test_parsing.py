"""DAG files parse without error, without network, and without the heavy imports that cost seconds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dedup_clone.settings.feed import read_feed
from tests.dags.conftest import FEED, FEEDS, OF_ALL_FEEDS, OF_EACH_FEED, copy_dags

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

REPOSITORY = Path(__file__).parents[2]
DAG_IDS = sorted([*OF_ALL_FEEDS, *(f"{feed}_{dag}" for feed in FEEDS for dag in OF_EACH_FEED)])


def test_each_feed_has_its_dags(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert [d.dag_id for d in bag.dags.values() if "configuration error" in d.tags] == []
    assert sorted(bag.dags) == DAG_IDS


def test_dags_survive_serialization(bag: DagBag) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in bag.dags.values():
        again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert sorted(again.task_dict) == sorted(dag.task_dict)


PARSE_OFFLINE = """
import socket, sys
import airflow.providers.google.cloud.operators.bigquery
before = set(sys.modules)
def refuse(*args, **kwargs):
    raise AssertionError("a DAG file used the network while it was parsed")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
print("\\n".join(sorted(set(sys.modules) - before)))
"""


def parse(dags: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "plugins"),
        "DEDUP_CLONE_PROFILE": "local",
    }
    return subprocess.run(
        [sys.executable, "-c", PARSE_OFFLINE, str(dags)], env=environment, capture_output=True, text=True, check=False
    )


def test_parsing_the_tree_that_is_deployed_uses_no_network_and_no_heavy_module(tmp_path: Path) -> None:
    done = parse(copy_dags(tmp_path))
    assert done.returncode == 0, done.stderr
    imported = done.stdout.split()
    assert "dedup_clone.orchestration.shared.dag_factory" in imported
    heavy = [m for m in imported if m.split(".")[0] in {"pyspark", "pandas", "numpy", "pyarrow", "duckdb", "sqlglot"}]
    assert heavy == []


def parsed(dags: Path) -> DagBag:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(dags))
    assert not bag.import_errors
    return bag


def test_a_bad_feed_file_shows_its_own_error_and_takes_no_other_feed_down(tmp_path: Path) -> None:
    dags = copy_dags(tmp_path)
    bad = dags / "feeds" / f"{FEED}.yaml"
    bad.write_text(bad.read_text().replace("retention_days", "retention_day"))
    found = parsed(dags).dags
    assert sorted(found) == DAG_IDS
    with_error = {dag_id for dag_id, dag in found.items() if "configuration error" in dag.tags}
    assert with_error == {f"{FEED}_{dag}" for dag in OF_EACH_FEED}
    for dag_id in with_error:
        assert "unknown key [table.retention_day]: did you mean [retention_days]?" in (found[dag_id].doc_md or "")
        assert re.match(
            r"INVALID, does nothing: .* unknown key \[table.retention_day\]", found[dag_id].description or ""
        )


def test_a_feed_file_of_another_suffix_says_how_to_name_it(tmp_path: Path) -> None:
    dags = copy_dags(tmp_path)
    file = dags / "feeds" / f"{FEED}.yaml"
    file.rename(file.with_suffix(".yml"))
    found = parsed(dags).dags
    assert sorted(found) == DAG_IDS
    assert f"is not read: rename it to [{FEED}.yaml]" in (found[f"{FEED}_publish"].doc_md or "")
    (dags / "feeds" / f"{FEEDS[-1]}.yml").write_text("")
    assert "configuration error" not in parsed(dags).dags[f"{FEEDS[-1]}_publish"].tags


def test_bad_feed_files_change_no_task_of_the_watchdog(tmp_path: Path) -> None:
    dags = copy_dags(tmp_path)
    for feed in FEEDS[:-1]:
        (dags / "feeds" / f"{feed}.yaml").write_text(f"feed: {feed}\n")
    tasks = {task.task_id: task.owner for task in parsed(dags).dags["freshness_watchdog"].tasks}
    owner = read_feed(dags / "feeds" / f"{FEEDS[-1]}.yaml").owner
    assert tasks == {"check_feeds": owner, "write_reporting_tables": owner}
