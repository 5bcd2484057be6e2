"""CHANGELOG.md and the version agree: changes that are not released are not those of the last release."""

from __future__ import annotations

import re
import tomllib

from dedup_clone import __version__
from tests.docs.raised_messages import REPOSITORY

SECTIONS = re.split(r"^## (.+)$", (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


def test_the_version_is_that_of_the_last_release_only_while_nothing_has_changed_since() -> None:
    (heading, changes), (released, _), *_ = zip(SECTIONS[::2], SECTIONS[1::2], strict=True)
    assert heading == "Unreleased"
    assert (__version__ == released) == (not re.search(r"^- ", changes, flags=re.MULTILINE))


def test_the_package_has_the_version_that_records_name() -> None:
    assert tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"] == __version__
