"""Makes docs/dags.md of the texts that Airflow shows for each DAG."""

from __future__ import annotations

import ast
from pathlib import Path

DAGS = Path(__file__).parents[2] / "dags"
OF_EACH_FEED = ("watch", "publish", "rollback")
OF_ALL_FEEDS = {
    "bootstrap": "dedup_clone_bootstrap",
    "rebuild": "dedup_clone_rebuild",
    "erase": "dedup_clone_erase",
    "retire": "dedup_clone_retire",
    "content_audit": "dedup_clone_content_audit",
    "freshness_watchdog": "freshness_watchdog",
}
HEAD = """# DAGs

Each feed has three DAGs; `FEED` stands for its name. Six DAGs serve all feeds. Airflow shows these texts, too.
"""


def render_dags() -> str:
    """The page, from the docstrings of the DAG files. Raises KeyError for a file that is in neither list."""
    files = {path.stem for path in DAGS.glob("*.py")}
    names = {name: f"FEED_{name}" for name in OF_EACH_FEED} | OF_ALL_FEEDS
    assert files == set(names), "a DAG file is missing in this list"
    return HEAD + "".join(_section(file, dag_id) for file, dag_id in names.items())


def _section(file: str, dag_id: str) -> str:
    text = ast.get_docstring(ast.parse((DAGS / f"{file}.py").read_text(encoding="utf-8"))) or ""
    title, _, rest = text.removeprefix("### ").partition("\n")
    return f"\n## `{dag_id}`\n\n**{title}**\n{rest}\n"
