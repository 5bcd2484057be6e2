"""What tests share is in modules of its own (tests/shared, testkit), so a test file can be moved or deleted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def imported_files(text: str) -> Iterator[Path]:
    """The modules of tests/ that a module imports."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{name}" for name in names)]
        for name in names:
            path = TESTS.parent.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith("tests.") and path.exists():
                yield path


def faults(path: Path, text: str) -> list[str]:
    """Imports of test files, and of another folder's conftest.py."""
    found = {p for p in imported_files(text) if p.name.startswith("test_")}
    found |= {p for p in imported_files(text) if p.name == "conftest.py" and p.parent != path.parent}
    return sorted(p.relative_to(TESTS).as_posix() for p in found)


def test_no_module_imports_a_test_file_or_the_conftest_of_another_folder() -> None:
    found = {path: faults(path, path.read_text()) for path in TESTS.rglob("*.py")}
    assert {path.relative_to(TESTS).as_posix(): names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from tests.unit.test_rest_schemas import x", ["unit/test_rest_schemas.py"]),
        ("from tests.unit import test_rest_schemas", ["unit/test_rest_schemas.py"]),
        ("import tests.unit.test_rest_schemas", ["unit/test_rest_schemas.py"]),
        ("from tests.contract.conftest import x", ["contract/conftest.py"]),
        ("from tests.golden_files import x", []),
    ],
)
def test_such_imports_are_found(line: str, expected: list[str]) -> None:
    assert faults(Path(__file__), line) == expected


def test_no_two_helper_modules_have_one_name() -> None:
    roots = (TESTS, TESTS.parent / "testkit")
    names = [path.name for root in roots for path in root.rglob("*.py")]
    helpers = [name for name in names if not name.startswith(("test_", "__")) and name != "conftest.py"]
    assert sorted(helpers) == sorted(set(helpers))
