"""Defines a contract type for import-linter: what the modules of each folder may import.

pyproject.toml has one line for each folder, `folder: name name`. The line applies to all modules below the folder,
except those below a subfolder that has a line of its own. A line may also name one module instead of a folder. A name
allows a package or module and everything below it; `name.__init__` allows only `import name`. The standard library and
the folder itself are always allowed. All absolute imports count, also those inside functions and under TYPE_CHECKING.
Relative imports are not checked here, because ruff allows them only within a folder.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from importlinter import Contract, ContractCheck, fields, output


class AllowedImports(Contract):
    """The contract. `allowed`: its lines, which must cover every module in the folders of the repository."""

    type_name = "allowed_imports"
    allowed = fields.ListField(subfield=fields.StringField())

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        faults = find_faults(Path.cwd(), parse_lines(self.allowed))  # type: ignore[arg-type]  # the parsed field
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for fault in check.metadata["faults"]:
            output.print_error(fault)


def parse_lines(lines: list[str]) -> dict[str, tuple[str, ...]]:
    """The names that each folder may import, by folder."""
    pairs = (line.partition(":") for line in lines)
    return {folder.strip(): tuple(names.split()) for folder, _, names in pairs}


def find_faults(repository: Path, allowed: dict[str, tuple[str, ...]]) -> list[str]:
    """One sentence for each forbidden import, for each module without a line, and for each line without a module."""
    faults, unused = [], set(allowed)
    for top in sorted(path for path in repository.iterdir() if path.is_dir() and not path.name.startswith(".")):
        for path in sorted(top.rglob("*.py")):
            name = path.relative_to(repository).as_posix()
            folders = [folder for folder in allowed if f"{name}/".startswith(f"{folder}/")]
            if not folders:
                faults.append(f"{name}: no line of the import rules covers it")
                continue
            folder = max(folders, key=len)
            unused.discard(folder)
            names = (*sys.stdlib_module_names, _own_package(folder), *allowed[folder])
            for line, imported in _imports(path):
                if not any(f"{imported}.".startswith(f"{one}.") for one in names):
                    faults.append(f"{name}:{line}: {folder} may not import {imported}")
    return faults + [f"no module is below {folder}" for folder in sorted(unused)]


def _own_package(folder: str) -> str:
    """The package of a folder, or of the folder that contains a module."""
    folder = folder.rpartition("/")[0] if folder.endswith(".py") else folder
    return folder.removeprefix("plugins/").removeprefix("spark_jobs/").replace("/", ".")


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a module imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, f"{alias.name}.__init__") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
