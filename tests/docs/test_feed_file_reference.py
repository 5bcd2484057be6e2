"""docs/feed-file.md and the JSON schema of feed files equal what the models say."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from dedup_clone.settings.feed import read_feed
from tests.docs.feed_file_reference import HEAD, render_reference, render_schema

ROOT = Path(__file__).parents[2]
FEEDS = ROOT / "dags" / "feeds"


@pytest.mark.parametrize(
    ("path", "text"),
    [(ROOT / "docs" / "feed-file.md", render_reference()), (ROOT / "docs" / "feed.schema.json", render_schema())],
    ids=["reference", "schema"],
)
def test_the_reference_is_what_the_models_say(path: Path, text: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text, f"[{path.name}] differs from the models: run make golden"


def test_the_smallest_feed_file_of_the_reference_is_valid(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", HEAD, re.DOTALL)
    assert found
    path = tmp_path / f"{yaml.safe_load(found[1])['feed']}.yaml"
    path.write_text(found[1])
    assert read_feed(path).landing.marker == "_SUCCESS"


@pytest.mark.parametrize("path", sorted(FEEDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_feed_file_names_its_schema(path: Path) -> None:
    assert path.read_text().startswith("# yaml-language-server: $schema=../../docs/feed.schema.json\n")
