"""docs/feed-file.md and the JSON schema of feed files equal what the models say, docs/dags.md what the DAGs say."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from dedup_clone.settings.feed import Feed, read_feed
from dedup_clone.settings.strict_yaml import StrictModel, section_model

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "feed-file.md"
FIRST_SECTION = "## The file\n"


def head() -> str:
    """What the page says before its first table, which nobody generates."""
    return REFERENCE.read_text().partition(FIRST_SECTION)[0]


def render_reference() -> str:
    return head() + "\n".join(_section(Feed, "")).rstrip() + "\n"


def render_schema() -> str:
    return json.dumps(Feed.model_json_schema(), indent=1) + "\n"


def _section(model: type[BaseModel], path: str) -> Iterator[str]:
    yield f"## `{path}`" if path else FIRST_SECTION.rstrip()
    yield ""
    if path:
        yield _with_links(inspect.cleandoc(model.__doc__ or ""))
        yield ""
    yield "| Key | Value | Default | Example | Meaning |"
    yield "| --- | --- | --- | --- | --- |"
    schema = Feed.model_json_schema()
    properties = (schema if model is Feed else schema["$defs"][model.__name__])["properties"]
    for name, field in model.model_fields.items():
        inner = section_model(field.annotation)
        anchor = f"{path}{name}".replace(".", "").replace("`", "")
        is_described_below = inner is not None and inner is not model and not field.examples
        meaning = f"[below](#{anchor})" if is_described_below else " ".join((field.description or "").split())
        value, default = _value(schema, properties[name]), _default(field)
        example = _example(name, field, value)
        yield _with_links(f"| `{name}` | {value} | {default} | {example} | {meaning} |")
    yield ""
    for name, field in model.model_fields.items():
        inner = section_model(field.annotation)
        if inner is not None and inner is not model:
            yield from _section(inner, f"{path}.{name}" if path else name)


def _with_links(text: str) -> str:
    """The text with a link for each page of docs/ that it names."""
    return re.sub(r"\bdocs/([a-z-]+)\.md", r"[\1](\1.md)", text)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        return ""
    plain = default.value if isinstance(default, Enum) else default
    return f"`{json.dumps(plain)}`"


def _example(name: str, field: FieldInfo, value: str) -> str:
    """The key with an example, in YAML on one line, where its possible values do not show how it is written."""
    if not field.examples or not re.search(r"\b(text|list|mapping)\b", value):
        return ""
    flow = yaml.safe_dump({name: field.examples[0]}, default_flow_style=True, sort_keys=False, width=10_000)
    return f"`{flow.strip()[1:-1]}`"


def _value(schema: dict[str, Any], part: dict[str, Any]) -> str:
    """What a value may be, in words, from its JSON schema `part`; `schema` holds the definitions it refers to."""
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    if "anyOf" in part:
        return " or ".join(_value(schema, option) for option in part["anyOf"])
    if "enum" in part:
        return ", ".join(f"`{value}`" for value in part["enum"])
    kind = part.get("type", "")
    if "const" in part:
        return f"`{part['const']}`"
    if kind == "array":
        return f"list of {_value(schema, part['items'])}"
    if kind == "object":
        return "section" if "properties" in part else "mapping"
    words = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true`, `false`"}
    if "minimum" in part and "maximum" in part:
        return f"{words[kind]}, {part['minimum']:,} to {part['maximum']:,}"
    bounds = [f"{sign} {part[key]:,}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in part]
    return ", ".join([words.get(kind, kind), *bounds])


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

Each feed has three DAGs; `FEED` stands for its name. Six DAGs serve all feeds. Airflow shows these texts, too. A good
run skips the task `reconcile_failure`: it runs after a failure only.
"""


def render_dags() -> str:
    """The page, from the docstrings of the DAG files. Raises KeyError for a file that is in neither list."""
    files = {path.stem for path in (ROOT / "dags").glob("*.py")}
    names = {name: f"FEED_{name}" for name in OF_EACH_FEED} | OF_ALL_FEEDS
    assert files == set(names), "a DAG file is missing in this list"
    return DAGS_HEAD + "".join(_dag_section(file, dag_id) for file, dag_id in names.items())


def _dag_section(file: str, dag_id: str) -> str:
    text = ast.get_docstring(ast.parse((ROOT / "dags" / f"{file}.py").read_text(encoding="utf-8"))) or ""
    title, _, rest = text.removeprefix("### ").partition("\n")
    return f"\n## `{dag_id}`\n\n**{title}**\n{rest}\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (REFERENCE, render_reference()),
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
    found = re.search(r"```yaml\n(.*?)```", head(), re.DOTALL)
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
