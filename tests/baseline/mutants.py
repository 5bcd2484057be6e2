"""Changes the product in one place at a time, and records which of today's tests see it.

The places are drawn at random, so many from each area. The tests of a place are the quickest of those that run its line
according to branch coverage with contexts; their times come from the same run's JUnit report. The changed file is
written to a checkout of `--tree`, because Spark's Python workers read it from there. All other packages are imported
once: each mutant gets a fork of this process.

    python -m tests.baseline.mutants --tree 63b3baaf --coverage .coverage --times junit.xml --part 0 --parts 2
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
RESULTS = Path(__file__).parent
LIBRARY = "plugins/dedup_clone"
CORE = ("attempt_jobs", "check", "commit", "dedup_result", "discard", "lease", "load", "prune", "recovery", "resolve")
AREAS = {
    "rules": (120, [f"{LIBRARY}/{name}/**/*.py" for name in ("checks", "contract", "settings")]),
    "freshness": (80, [f"{LIBRARY}/freshness/**/*.py"]),
    "protocol": (200, [f"{LIBRARY}/state/**/*.py", *(f"{LIBRARY}/publish/{name}.py" for name in CORE)]),
    "spark": (200, ["spark_jobs/dedup_spark/**/*.py"]),
    "operations": (
        80,
        [f"{LIBRARY}/engines/**/*.py"]
        + [f"{LIBRARY}/publish/{name}/**/*.py" for name in ("rollback", "bootstrap", "rebuild", "erasure")],
    ),
}
MOST_TESTS = 10
MOST_SECONDS = 12.0  # of the chosen tests together, on a quiet machine
TIMEOUT_S = 300
# Imported before the forks, because they take seconds. None of them is the product.
PRELOADED = (
    "duckdb",
    "google.cloud.bigquery",
    "google.cloud.bigquery_storage_v1",
    "google.cloud.storage",
    "grpc",
    "hypothesis",
    "jinja2",
    "numpy",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pydantic",
    "requests",
    "yaml",
)

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitXor: ast.BitOr,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One change: of the node with this number in `ast.walk`, in the source of `file`."""

    area: str
    file: str
    line: int
    change: str
    node: int
    source: str  # the line as it is, to find it again in a file that has moved


def change_of(node: ast.AST) -> str | None:
    """What is changed at a node; None for nodes that stay."""
    if isinstance(node, ast.Compare):
        return "comparison" if type(node.ops[0]) in SWAPPED else None
    if isinstance(node, ast.BoolOp):
        return "and/or"
    if isinstance(node, ast.BinOp):
        is_text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        return None if is_text or type(node.op) not in SWAPPED else "arithmetic"
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return "condition"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return "number"
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return "flag"
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        return "result"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "deleted call"
    return None


def changed(node: ast.AST, change: str) -> None:
    """Carry a change out, in place."""
    if change == "comparison":
        node.ops[0] = SWAPPED[type(node.ops[0])]()
    elif change in ("and/or", "arithmetic"):
        node.op = SWAPPED[type(node.op)]()
    elif change == "condition":
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif change == "number":
        node.value = node.value + 1
    elif change == "flag":
        node.value = not node.value
    else:
        node.value = ast.Constant(None)


def without_declarations(tree: ast.Module) -> Iterator[tuple[int, ast.AST]]:
    """The nodes of a module with their numbers, but for named constants, annotations and conditions on types."""
    left_out: set[int] = set()
    for statement in tree.body:
        is_constant = isinstance(statement, ast.Assign | ast.AnnAssign)
        is_of_types = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)
        if is_constant or is_of_types:
            left_out.update(id(node) for node in ast.walk(statement))
    for number, node in enumerate(ast.walk(tree)):
        for field in ("annotation", "returns"):
            annotation = getattr(node, field, None)
            if isinstance(annotation, ast.AST):
                left_out.update(id(inner) for inner in ast.walk(annotation))
        if id(node) not in left_out:
            yield number, node


def mutants(folder: Path) -> list[Mutant]:
    """The sample of each area, in a fixed order."""
    chosen: list[Mutant] = []
    for area, (count, patterns) in AREAS.items():
        files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.name != "__init__.py"})
        found: list[Mutant] = []
        for path in files:
            source = path.read_text()
            for number, node in without_declarations(ast.parse(source)):
                change = change_of(node)
                if change:
                    text = source.splitlines()[node.lineno - 1].strip()
                    found.append(Mutant(area, str(path.relative_to(folder)), node.lineno, change, number, text))
        random.Random(3).shuffle(found)
        print(f"{area}: {min(count, len(found))} of {len(found)} places in {len(files)} files", flush=True)
        chosen += found[:count]
    return chosen


def mutated(source: str, mutant: Mutant) -> str:
    tree = copy.deepcopy(ast.parse(source))
    node = next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node)
    changed(node, mutant.change)
    return ast.unparse(ast.fix_missing_locations(tree))


def test_times(report: Path) -> dict[str, float]:
    """The seconds of each test of a JUnit report, by its name without the file's ending."""
    cases = ElementTree.parse(report).iter("testcase")
    return {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", "0")) for case in cases}


class Chooser:
    """Chooses the tests of a line."""

    def __init__(self, coverage: Path, report: Path) -> None:
        self.connection = sqlite3.connect(f"file:{coverage}?mode=ro", uri=True)
        self.times = test_times(report)
        self.contexts = dict(self.connection.execute("SELECT id, context FROM context"))
        self.lines: dict[str, list[tuple[int, set[int]]]] = {}

    def tests(self, file: str, line: int) -> list[str]:
        """The quickest tests that run a line, or that run the file if it is run at import. One of each function."""
        times = self._covering(file, line) or self._covering(file, None)
        chosen: dict[str, str] = {}
        seconds = 0.0
        for test in sorted(times, key=lambda name: times[name]):
            function = test.partition("[")[0]
            if chosen and (seconds + times[test] > MOST_SECONDS or len(chosen) == MOST_TESTS):
                break
            if function not in chosen:
                chosen[function] = test
                seconds += times[test]
        return list(chosen.values())

    def _covering(self, file: str, line: int | None) -> dict[str, float]:
        times: dict[str, float] = {}
        for context, lines in self._lines(file):
            test = self.contexts[context].rpartition("|")[0]
            if test.startswith("tests/") and (line is None or line in lines):
                path, _, name = test.partition("::")
                times[test] = self.times.get(f"{path.removesuffix('.py').replace('/', '.')}::{name}", 5.0)
        return times

    def _lines(self, file: str) -> list[tuple[int, set[int]]]:
        if file not in self.lines:
            arcs = self.connection.execute(
                "SELECT context_id, fromno, tono FROM arc JOIN file ON file.id = arc.file_id WHERE file.path = ?",
                (file,),
            )
            by_context: dict[int, set[int]] = {}
            for context, before, after in arcs:
                by_context.setdefault(context, set()).update(n for n in (before, after) if n > 0)
            self.lines[file] = list(by_context.items())
        return self.lines[file]


def forked(work: Callable[[], int]) -> int:
    """Run `work` in a child, in a process group of its own. Returns its result, 99 if it took too long."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        result = 98
        with contextlib.suppress(BaseException):
            result = int(work())
        os._exit(result)
    deadline = time.monotonic() + TIMEOUT_S
    status = None
    while status is None:
        ended, found = os.waitpid(child, os.WNOHANG)
        if ended:
            status = os.waitstatus_to_exitcode(found)
        elif time.monotonic() > deadline:
            status = 99
        else:
            time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status == 99:
        os.waitpid(child, 0)
    return status


def outcome(mutant: Mutant, folder: Path, chooser: Chooser) -> str:
    tests = chooser.tests(mutant.file, mutant.line)
    if not tests:
        return "no test runs the line"
    path = folder / mutant.file
    source = path.read_text()
    path.write_text(mutated(source, mutant))
    try:
        status = forked(lambda: pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests]))
    finally:
        path.write_text(source)
    if status == 0:
        return "survived"
    return "killed" if status in (1, 2, 3) else "killed by its time" if status == 99 else f"pytest ended with {status}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", default="HEAD", help="the commit whose tests are asked")
    parser.add_argument("--coverage", type=Path, required=True)
    parser.add_argument("--times", type=Path, required=True, help="JUnit report of the run that was covered")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1, help="so many processes share the mutants")
    options = parser.parse_args()
    results_file = RESULTS / f"mutants.{options.part}.json"
    results: list[dict[str, object]] = json.loads(results_file.read_text()) if results_file.exists() else []
    chooser = Chooser(options.coverage.resolve(), options.times.resolve())
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", folder, options.tree], cwd=REPOSITORY, check=True)
        for shared in (".venv", ".local"):
            (folder / shared).symlink_to(REPOSITORY / shared)
        os.chdir(folder)
        sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != REPOSITORY]
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        try:
            for number, mutant in enumerate(mutants(folder)[options.part :: options.parts]):
                if number < len(results):
                    continue
                results.append({**asdict(mutant), "outcome": outcome(mutant, folder, chooser)})
                results_file.write_text(json.dumps(results, indent=1) + "\n")
                print(number, results[-1]["outcome"], mutant.file, mutant.line, mutant.change, flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=REPOSITORY, check=True)


if __name__ == "__main__":
    main()
