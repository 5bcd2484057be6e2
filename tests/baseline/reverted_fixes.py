"""Reverts the product part of former fixes, one at a time, and records whether today's tests see that it is missing.

A fix is a commit that touches product and tests and changes at most 40 lines of the product. Its product part is taken
back from a checkout of `--tree`; then the tests that the commit touched run. Those of the real stack are left out.

    python -m tests.baseline.reverted_fixes --tree eef23f33 --most 80 --seconds 3000
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "reverted_fixes.json"
PRODUCT = ("plugins", "spark_jobs", "dags", "sql")
MOST_LINES = 40  # of the product's part of a fix
TEST_SECONDS = 600


def git(*arguments: str, folder: Path = REPOSITORY, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=folder, input=text, capture_output=True, text=True, check=False)


def candidates(tree: str) -> Iterator[str]:
    """The commits before `tree`, the newest first, that are fixes by their size."""
    for commit in git("log", "--no-merges", "--format=%h", tree, "--", *PRODUCT).stdout.split():
        counts = [line.split("\t") for line in git("show", "--numstat", "--format=", commit).stdout.splitlines()]
        product = [int(a) + int(d) for a, d, path in counts if path.startswith(PRODUCT) and a.isdigit()]
        tests = [path for _, _, path in counts if path.startswith("tests/")]
        if product and tests and sum(product) <= MOST_LINES:
            yield commit


def tests_of(commit: str, folder: Path) -> list[str]:
    """The test files that the commit touched and that still exist."""
    touched = git("show", "--name-only", "--format=", commit).stdout.split()
    return [p for p in touched if p.startswith("tests/") and Path(p).name.startswith("test_") and (folder / p).exists()]


def outcome(commit: str, folder: Path) -> str:
    """What happens to the tests of the commit without its product part: `caught`, `passed` or why they did not run."""
    tests = [path for path in tests_of(commit, folder) if not path.startswith("tests/stack/")]
    if not tests:
        return "no test file is left"
    patch = git("diff", commit, f"{commit}^", "--", *PRODUCT).stdout
    if git("apply", "-3", "--index", "-", folder=folder, text=patch).returncode != 0:
        git("reset", "--hard", "--quiet", folder=folder)
        return "does not apply"
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TEST_SECONDS, check=False, env=environment
        )
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, re.MULTILINE)
        if failed:
            return f"caught by {failed[1]}"
        return "passed" if ended.returncode == 0 else f"pytest ended with {ended.returncode}"
    except subprocess.TimeoutExpired:
        return "took too long"
    finally:
        git("reset", "--hard", "--quiet", folder=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", default="HEAD", help="the commit whose tests are asked")
    parser.add_argument("--most", type=int, default=80, help="how many fixes are caught before the list is complete")
    parser.add_argument("--seconds", type=float, default=3000, help="stop after this time; a later call goes on")
    options = parser.parse_args()
    results: dict[str, str] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "tree"
        git("worktree", "add", "--detach", "--quiet", str(folder), options.tree)
        for shared in (".venv", ".local"):
            (folder / shared).symlink_to(REPOSITORY / shared)
        try:
            for commit in candidates(options.tree):
                is_complete = sum(found.startswith("caught") for found in results.values()) >= options.most
                if is_complete or time.monotonic() - began > options.seconds:
                    break
                if commit not in results:
                    results[commit] = outcome(commit, folder)
                    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
                    print(commit, results[commit], flush=True)
        finally:
            git("worktree", "remove", "--force", str(folder))
    kinds = [found.split(" by ")[0] for found in results.values()]
    print({kind: kinds.count(kind) for kind in sorted(set(kinds))})


if __name__ == "__main__":
    main()
