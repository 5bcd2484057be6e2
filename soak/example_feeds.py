"""Writes feeds of the worked example's columns into a copy of the DAGs folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from testkit.proxied_stack import EXAMPLE


def write_example_feed(dags: Path, feed: str, **settings: Any) -> None:
    """Write the worked example's feed file with another name. A mapping in `settings` changes keys of its section."""
    values = yaml.safe_load((dags / "feeds" / f"{EXAMPLE}.yaml").read_text())
    values |= {"feed": feed, "landing": {"prefix": feed}}
    for name, value in settings.items():
        values[name] = {**values[name], **value} if isinstance(value, dict) else value
    (dags / "feeds" / f"{feed}.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
