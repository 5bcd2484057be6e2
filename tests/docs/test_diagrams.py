"""The diagrams of the architecture page have every DAG, and every task of a publish."""

from __future__ import annotations

import json
import re

from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "architecture.md").read_text()
DAGS, PUBLISH, *_ = re.findall(r"^```mermaid\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
FOR_ALL_FEEDS = {"freshness_watchdog", "alert_test"}


def test_each_dag_is_in_the_diagram_and_in_the_table() -> None:
    stems = {path.stem for path in (ROOT / "dags").glob("*.py")}
    names = {stem if stem in FOR_ALL_FEEDS else f"FEED_{stem}" for stem in stems}
    assert set(re.findall(r'\["(\w+)"\]', DAGS)) == names
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.split("\n## One publish\n")[0], re.MULTILINE)) == names


def test_each_task_of_a_publish_is_in_the_diagram_and_in_the_table() -> None:
    golden = ROOT / "tests" / "golden" / "dags"
    tasks = list(json.loads((golden / "product_attributes_publish.json").read_text())["tasks"])
    assert [task for task in tasks if task not in PUBLISH] == []
    assert [task for task in tasks if f"| `{task}`" not in PAGE] == []
