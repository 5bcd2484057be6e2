"""Renders the reference of feed files, in Markdown, from the settings' models."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dedup_clone.settings.feed import Feed
from dedup_clone.settings.strict_yaml import section_model

HEAD = """\
# Feed files

A feed is one file `dags/feeds/FEED.yaml`. The smallest one:

```yaml
# yaml-language-server: $schema=../../docs/feed.schema.json
feed: orders
description: One row for each order and day.
owner: data-platform
landing: {prefix: shop/orders}
table:
  columns:
    - {name: ordered_on, type: DATE}
    - {name: order_id, type: INT64}
    - {name: amount, type: NUMERIC}
    - {name: snapshot_id, type: INT64}
  partition_column: ordered_on
  snapshot_id_column: snapshot_id
  keys: [ordered_on, order_id]
  retention_days: 730
```

Its first line makes editors with YAML support complete keys and mark errors. An error names file, line and key.
Numbers and `true`, `false` are those of YAML 1.2: `1:30` and `yes` are texts.

A feed can bring checks of its own: queries that return wrong rows. A publish whose query returns one stops before the
swap. With `checks: {sql: [{name: no_negative_amounts}]}`, `dags/feeds/orders/no_negative_amounts.sql`:

```sql
SELECT order_id, amount FROM {{ staging }} AS orders WHERE orders.amount < 0
```

With `min` or `max` the query returns one number instead, which must lie in that range; NULL does not.
"""


def render_reference() -> str:
    return "\n".join([HEAD, *_section(Feed, "")]).rstrip() + "\n"


def render_schema() -> str:
    return json.dumps(Feed.model_json_schema(), indent=1) + "\n"


def _section(model: type[BaseModel], path: str) -> Iterator[str]:
    yield f"## `{path}`" if path else "## The file"
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
