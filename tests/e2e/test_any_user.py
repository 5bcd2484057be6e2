"""The first command, for root in a folder that only root may open, such as root's home, and for who is not root.

A user namespace gives the second user root's files, but none of root's rights.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.stack import processes
from devstack.stack.layout import CHECKOUT, Layout
from testkit.running_stack import wait_for_dags
from testkit.stack import Stack

pytestmark = pytest.mark.timeout(1800)

IS_ROOT = os.geteuid() == 0
NOT_ROOT = ("unshare", "--user", "--map-user=1", "--map-group=1") if IS_ROOT else ()
NOT_COPIED = shutil.ignore_patterns(".git", ".local", ".venv*", ".*_cache", "__pycache__", "node_modules")


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # the folders are on two file systems
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the checkout, with its environment: PostgreSQL's binaries are in it."""
    closed = tmp_path_factory.mktemp("closed")
    closed.chmod(0o700)
    shutil.copytree(CHECKOUT, closed / "checkout", symlinks=True, ignore=NOT_COPIED)
    shutil.copytree(sys.prefix, closed / "checkout" / ".venv", symlinks=True, copy_function=link_or_copy)
    yield closed / "checkout"
    shutil.rmtree(closed)


class User:
    """Runs goals of the Makefile in `checkout`, each after the words of `prefix`, and stops the stack at the end."""

    def __init__(self, checkout: Path, *prefix: str) -> None:
        self.checkout, self.prefix, self.local = checkout, prefix, checkout / ".local"

    def make(self, *words: str) -> str:
        """What the command printed. Raises AssertionError if it fails."""
        environment = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
        environment["HOME"] = str(self.checkout.parent)
        # The goal `setup` is taken for done, because links to the files of another environment must not be renewed.
        command = (*self.prefix, "make", "--old-file=setup", *words)
        done = subprocess.run(command, cwd=self.checkout, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.make("down")
            assert processes.of_stack(self.local) == []
        finally:
            processes.sweep(self.local, timeout_s=5.0)  # what is left after an interrupted start
            shutil.rmtree(self.local, ignore_errors=True)


def test_the_demo_publishes_right_tables_and_ends_with_the_address_of_the_page(checkout: Path) -> None:
    with User(checkout) as user:
        said = user.make("demo")
    assert "product_attributes: equal, 104,052 rows" in said
    assert "/plugin/snapshots   login: admin / admin" in said


@pytest.mark.soak
def test_who_is_not_root_publishes_a_snapshot(checkout: Path) -> None:
    if subprocess.run([*NOT_ROOT, "true"]).returncode != 0:
        (pytest.fail if "CI" in os.environ else pytest.skip)("needs user namespaces: sysctl user.max_user_namespaces")
    feed = "worked_example"
    with User(checkout, *NOT_ROOT) as user:
        user.make("up")
        stack = Stack(Layout({}, checkout))
        wait_for_dags(stack, feed)
        landed = user.make("land", f"FEED={feed}")
        (run_id,) = (line.rpartition("/")[2] for line in landed.splitlines() if line.startswith("Watch it: "))
        stack.assert_published(feed, run_id)
        assert len(stack.rows(feed)) == 5
