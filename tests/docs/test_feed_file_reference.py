"""docs/feed-file.md and the JSON schema of feed files equal what the models say, docs/dags.md what the DAGs say."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, create_model

from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.strict_yaml import StrictModel, section_model
from tests.docs.feed_file_reference import HEAD, render_reference, render_schema

ROOT = Path(__file__).parents[2]
FEEDS = ROOT / "dags" / "feeds"
OF_EACH_FEED = ("watch", "publish", "rollback")
OF_ALL_FEEDS = {
    "bootstrap": "dedup_clone_bootstrap",
    "rebuild": "dedup_clone_rebuild",
    "erase": "dedup_clone_erase",
    "retire": "dedup_clone_retire",
    "content_audit": "dedup_clone_content_audit",
    "freshness_watchdog": "freshness_watchdog",
}
DAGS_HEAD = """# DAGs

Each feed has three DAGs; `FEED` stands for its name. Six DAGs serve all feeds. Airflow shows these texts, too.
"""


def render_dags() -> str:
    """The page, from the docstrings of the DAG files. Raises KeyError for a file that is in neither list."""
    files = {path.stem for path in (ROOT / "dags").glob("*.py")}
    names = {name: f"FEED_{name}" for name in OF_EACH_FEED} | OF_ALL_FEEDS
    assert files == set(names), "a DAG file is missing in this list"
    return DAGS_HEAD + "".join(_section(file, dag_id) for file, dag_id in names.items())


def _section(file: str, dag_id: str) -> str:
    text = ast.get_docstring(ast.parse((ROOT / "dags" / f"{file}.py").read_text(encoding="utf-8"))) or ""
    title, _, rest = text.removeprefix("### ").partition("\n")
    return f"\n## `{dag_id}`\n\n**{title}**\n{rest}\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (ROOT / "docs" / "feed-file.md", render_reference()),
        (ROOT / "docs" / "feed.schema.json", render_schema()),
        (ROOT / "docs" / "dags.md", render_dags()),
    ],
    ids=["reference", "schema", "dags"],
)
def test_the_reference_is_what_the_code_says(path: Path, text: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text, f"[{path.name}] differs from the code: UPDATE_GOLDEN=1 writes it"


def test_the_smallest_feed_file_of_the_reference_is_valid(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", HEAD, re.DOTALL)
    assert found
    path = tmp_path / f"{yaml.safe_load(found[1])['feed']}.yaml"
    path.write_text(found[1])
    assert read_feed(path).landing.marker == "_SUCCESS"


def keys(model: type[BaseModel] = Feed) -> Iterator[tuple[type[BaseModel], str]]:
    """Each key of a feed file with the model of its section."""
    for name, field in model.model_fields.items():
        yield model, name
        inner = section_model(field.annotation)
        if inner is not None and inner is not model:
            yield from keys(inner)


@pytest.mark.parametrize(("model", "name"), [*keys()], ids=lambda value: getattr(value, "__name__", value))
def test_each_key_has_an_example_that_is_valid_and_in_the_schema(model: type[BaseModel], name: str) -> None:
    field = model.model_fields[name]
    inner = section_model(field.annotation)
    if inner is not None and not field.examples:
        return  # its keys have
    assert field.examples
    only_this_key: Any = create_model("OnlyThisKey", __base__=StrictModel, **{name: (field.annotation, field)})
    only_this_key.model_validate_json(json.dumps({name: field.examples[0]}))
    schema = Feed.model_json_schema()
    properties = (schema if model is Feed else schema["$defs"][model.__name__])["properties"]
    assert properties[name]["examples"] == field.examples


@pytest.mark.parametrize("path", sorted(FEEDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_feed_file_names_its_schema(path: Path) -> None:
    assert path.read_text().startswith("# yaml-language-server: $schema=../../docs/feed.schema.json\n")
