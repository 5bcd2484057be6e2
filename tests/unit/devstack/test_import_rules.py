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


@pytest.mark.parametrize(
    "source",
    [
        "import airflow.sdk",
        "from airflow import sdk",
        "def f():\n    import airflow",
        "if True:\n    from airflow import x",
    ],
)
def test_an_import_that_is_not_listed_is_found_with_its_place(tmp_path: Path, source: str) -> None:
    (fault,) = faults_of(tmp_path, source, "plugins/lib/state: google.cloud.storage")
    line = len(source.splitlines())
    assert fault.startswith(f"plugins/lib/state/store.py:{line}: plugins/lib/state may not import airflow.")


@pytest.mark.parametrize(
    "source",
    ["import json", "from google.cloud import storage", "from lib.state.names import A", "from .names import A"],
)
def test_listed_names_the_standard_library_and_the_folder_itself_may_be_imported(tmp_path: Path, source: str) -> None:
    assert faults_of(tmp_path, source, "plugins/lib/state: google.cloud.storage") == []


def test_a_name_allows_nothing_that_only_begins_like_it(tmp_path: Path) -> None:
    assert faults_of(tmp_path, "import googleapiclient", "plugins/lib/state: google")


def test_the_root_package_alone_can_be_allowed(tmp_path: Path) -> None:
    source = "import lib\nfrom lib.page import view"
    (fault,) = faults_of(tmp_path, source, "plugins/lib/state: lib.__init__")
    assert "may not import lib.page.view" in fault


def test_the_longest_line_holds_also_for_a_single_module(tmp_path: Path) -> None:
    lines = ("plugins/lib/state:", "plugins/lib/state/store.py: airflow", "plugins: numpy")
    faults = faults_of(tmp_path, "import airflow", *lines)
    assert faults == ["no module is below plugins", "no module is below plugins/lib/state"]


def test_a_module_that_no_line_covers_is_found(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, "", "plugins/lib/page:")
    assert "plugins/lib/state/store.py: no line of the import rules covers it" in faults


def test_a_folder_that_no_line_mentions_is_found(tmp_path: Path) -> None:
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
