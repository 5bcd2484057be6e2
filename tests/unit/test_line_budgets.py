"""Each folder has at most as many lines of Python as pyproject.toml allows, so that growth is a decision."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
BUDGETS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["line-budgets"]


@pytest.mark.parametrize("folder", BUDGETS)
def test_a_folder_keeps_within_its_budget(folder: str) -> None:
    lines = sum(path.read_text().count("\n") for path in (REPOSITORY / folder).rglob("*.py"))
    assert 0 < lines <= BUDGETS[folder]


def test_every_module_of_the_product_is_in_a_folder_with_a_budget() -> None:
    modules = {
        path.relative_to(REPOSITORY) for folder in ("dags", "plugins") for path in (REPOSITORY / folder).rglob("*.py")
    }
    counted = {path for path in modules if any(path.is_relative_to(folder) for folder in BUDGETS)}
    assert {str(path) for path in modules - counted} == {
        "plugins/snapshots_plugin.py",
        "plugins/dedup_clone/__init__.py",
    }
