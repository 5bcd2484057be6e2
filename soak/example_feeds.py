"""Writes copies of the worked example's feed file, with other settings, into a copy of the DAGs folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from testkit.proxied_stack import EXAMPLE


def write_example_feed(dags: Path, feed: str, **settings: Any) -> None:
    """Write the feed file of `feed`, a copy of the worked example's. `dags`: the copied folder of the DAGs.

    `settings`: other values of the file's top-level keys. A mapping replaces single values of the section of that name.
    """
    values = yaml.safe_load((dags / "feeds" / f"{EXAMPLE}.yaml").read_text())
    values |= {"feed": feed, "landing": {"prefix": feed}}
    for name, value in settings.items():
        values[name] = {**values[name], **value} if isinstance(value, dict) else value
    (dags / "feeds" / f"{feed}.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
