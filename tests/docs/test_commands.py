"""Every command in README and docs exists, and what it runs is tested; or its block says that it needs Google Cloud."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache

from tests.docs.test_links import PAGES, ROOT

HERE_DOCUMENT = re.compile(r"<<(\w+)\n.*?^ *\1$", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^ *```(?:bash|sh|console)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
NEEDS_CLOUD = "# needs Google Cloud"
CLOUD_TOOLS = ("gcloud", "terraform", "bq", "gsutil")
SHELL = ("set", "echo", ".", "cd", "for", "do", "done", "sed", "cat")
# Clients of the local stack, and the test that runs them.
CLIENTS = {
    "gsutil cp": "tests/stack/copied_snapshots.py",
    "bq show": "tests/contract/bigquery/test_bq_tool.py",
    "bq query": "tests/contract/bigquery/test_bq_tool.py",
    "curl -X": "tests/page/test_airflow_answers.py",
}


def blocks() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            yield str(page.relative_to(ROOT)), block


def commands(block: str) -> Iterator[list[str]]:
    """The words of each command; commands are separated by new lines, `;`, `&&` and `|`."""
    block = HERE_DOCUMENT.sub("", block)
    lexer = shlex.shlex(block.replace("\\\n", " ").replace("\n", "\n;\n"), posix=True, punctuation_chars=";&|")
    lexer.commenters, lexer.whitespace_split = "#", True
    command: list[str] = []
    for word in lexer:
        if set(word) <= set(";&|"):
            if command:
                yield command
            command = []
        else:
            command.append(word)


@cache
def text_of_tests() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))


@cache
def makefile() -> str:
    return (ROOT / "Makefile").read_text()


def check_make(words: list[str]) -> None:
    """`make` knows the target and its variables, and tests use the modules that its recipe runs."""
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for variable in (word.partition("=")[0] for word in words if "=" in word):
        assert f"$({variable})" in makefile(), f"no recipe uses {variable}"
    for module in set(re.findall(r" -m ([a-z_]+(?:\.[a-z_]+)?)", done.stdout)) - {"pip", "uv", "venv", "pytest"}:
        assert importlib.util.find_spec(module), module
        folder, _, name = module.rpartition(".")
        used = rf"(from|import) {re.escape(module)}\b|from {re.escape(folder or module)} import .*\b{name}\b"
        assert re.search(used, text_of_tests()), f"no test uses {module}"


def check_module(module: str, words: list[str]) -> None:
    """The module has the sub-command, and knows the options. It is not imported, because that takes seconds."""
    source = "\n".join(path.read_text() for path in (ROOT / module).glob("*.py"))
    for word in (words[0], *(word for word in words if word.startswith("--"))):
        assert f'"{word}"' in source, f"python -m {module} does not know {word}"


def check_client(words: list[str]) -> None:
    test = CLIENTS[" ".join(words[:2])]
    assert words[0] in (ROOT / test).read_text() or words[0] == "curl"


def check(words: list[str], needs_cloud: bool) -> None:
    if words[0] == "make":
        check_make(words[1:])
    elif words[:2] == [".venv/bin/python", "-m"]:
        check_module(words[2], words[3:])
    elif needs_cloud:
        assert words[0] in (*CLOUD_TOOLS, *SHELL)
    elif words[0] not in SHELL:
        check_client(words)


def test_each_command_exists_and_what_it_runs_is_tested() -> None:
    wrong, found = [], list(blocks())
    for page, block in found:
        for words in commands(block):
            try:
                check(words, NEEDS_CLOUD in block)
            except (AssertionError, KeyError) as error:
                wrong.append(f"{page}: {shlex.join(words)}: {error!r}")
    assert wrong == []
    assert len(found) > 15
