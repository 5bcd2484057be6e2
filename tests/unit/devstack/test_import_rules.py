"""The allow-lists of imports: every forbidden import is found, and the lists of this project have no cycle."""

from __future__ import annotations

import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

from devstack.import_rules import find_faults, parse_lines

REPOSITORY = Path(__file__).resolve().parents[3]


# What the module plugins/lib/state/store.py may import, and does.
LISTED = "plugins/lib/state: google lib.__init__"
ALLOWED = (
    "import json\nimport lib\nfrom google.cloud import storage\nfrom .names import A\nfrom lib.state.names import A\n"
)
FORBIDDEN = [
    *("import airflow.sdk", "from airflow import sdk", "def f():\n    import airflow"),
    *("import googleapiclient", "from lib.page import view"),
]


def faults_of(folder: Path, source: str, *lines: str) -> list[str]:
    path = folder / "plugins" / "lib" / "state" / "store.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return find_faults(folder, parse_lines(list(lines)))


def test_each_import_that_is_not_listed_and_a_module_of_no_list_are_found(tmp_path: Path) -> None:
    assert [len(faults_of(tmp_path, ALLOWED + source, LISTED)) for source in ("", *FORBIDDEN)] == [0, 1, 1, 1, 1, 1]
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
