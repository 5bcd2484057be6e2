"""The allow-lists of imports: every forbidden import is found, and the lists of this project have no cycle."""

from __future__ import annotations

import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from devstack.import_rules import find_faults, parse_lines

REPOSITORY = Path(__file__).resolve().parents[3]


def faults_of(repository: Path, source: str, *lines: str) -> list[str]:
    """The faults when `source` is the module plugins/lib/state/store.py."""
    path = repository / "plugins" / "lib" / "state" / "store.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    return find_faults(repository, parse_lines(list(lines)))


LISTED = "plugins/lib/state: google.cloud.storage"


@pytest.mark.parametrize(
    ("source", "line", "found"),
    [
        ("import airflow.sdk", LISTED, 1),
        ("from airflow import sdk", LISTED, 1),
        ("def f():\n    import airflow", LISTED, 1),
        ("import googleapiclient", "plugins/lib/state: google", 1),  # a name that only begins like a listed one
        ("import lib\nfrom lib.page import view", "plugins/lib/state: lib.__init__", 1),
        ("import json", LISTED, 0),
        ("from google.cloud import storage", LISTED, 0),
        ("from .names import A\nfrom lib.state.names import A", LISTED, 0),
    ],
)
def test_an_import_that_is_not_listed_is_found(tmp_path: Path, source: str, line: str, found: int) -> None:
    assert len(faults_of(tmp_path, source, line)) == found


def test_a_module_that_no_line_covers_is_found(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "") == ["plugins/lib/state/store.py: no line of the import rules covers it"]


def test_no_top_level_folder_may_import_one_that_may_import_it() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (lines,) = (contract["allowed"] for contract in contracts if contract["type"] == "allowed_imports")
    homes = {"dedup_clone": "plugins", "dedup_spark": "spark_jobs"}
    graph: dict[str, set[str]] = {}
    for folder, names in parse_lines(lines).items():
        top = folder.split("/")[0]
        imported = {homes.get(name.split(".")[0], name.split(".")[0]) for name in names}
        graph.setdefault(top, set()).update(imported - {top})
    in_order = [*TopologicalSorter(graph).static_order()]  # raises CycleError where folders import each other
    assert graph.keys() <= set(in_order)
