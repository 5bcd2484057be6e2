"""Every command in README and docs exists, and what it runs is tested; or its block says that it needs Google Cloud."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.api_fastapi.core_api import openapi
from jsonschema import Draft202012Validator

from dedup_clone.orchestration.publish.publish_form import publish_params
from dedup_clone.settings.feed import read_feed
from tests.docs.known_commands import BQ, BQ_GLOBAL, GCLOUD, TOOLS, check_tool
from tests.docs.pages import PAGES, ROOT

HERE_DOCUMENT = re.compile(r"<<(\w+)\n.*?^ *\1$", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^ *```(?:bash|sh|console)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
NEEDS_CLOUD = "# needs Google Cloud"
SHELL = ("set", "echo", ".", "cd", "for", "do", "done", "sed", "cat")
# Tools of Google that the blocks use without Google Cloud, on the local stack, and the test that runs them.
CLIENTS = {
    "gcloud": "tests/docs/test_client_pages.py",
    "gsutil": "tests/docs/test_client_pages.py",
    "bq": "tests/docs/test_client_pages.py",
}
# Commands in the midst of a sentence begin like this, after variables.
INLINE = re.compile(r"^(?:[A-Z_]+=\S+ )*(bq|gcloud|gsutil|terraform|make|docker|pip|curl|(?:\.venv/bin/)?python) \S")


def blocks() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            yield str(page.relative_to(ROOT)), block


def inline_commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for span in SPAN.findall(FENCE.sub("", page.read_text())):
            text = " ".join(span.split())
            if page.name != "CHANGELOG.md" and INLINE.match(text):
                yield str(page.relative_to(ROOT)), text


def commands(block: str) -> Iterator[list[str]]:
    """The words of each command; commands are separated by new lines, `;`, `&&` and `|`."""
    block = re.sub(r"^[A-Z_]+=\$\((.*?)\)$", r"\1", HERE_DOCUMENT.sub("", block), flags=re.DOTALL | re.MULTILINE)
    lexer = shlex.shlex(re.sub(r"\\\n|\|\n", lambda m: m[0][:-1].replace("\\", " "), block).replace("\n", "\n;\n"),
                        posix=True, punctuation_chars=";&|")  # fmt: skip
    lexer.commenters, lexer.whitespace_split = "#", True
    command: list[str] = []
    for word in lexer:
        if set(word) <= set(";&|"):
            if command:
                yield command
            command = []
        elif command or not re.match(r"[A-Z_]+=", word):  # variables before a command
            command.append(word.replace("\n;\n", "\n"))
    if command:
        yield command


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
        assert re.search(rf"\$\({variable}\)|ifdef {variable}\b", makefile()), f"no recipe uses {variable}"
    for module in set(re.findall(r" -m ([a-z_]+(?:\.[a-z_]+)?)", done.stdout)) - {
        "pip",
        "uv",
        "venv",
        "pytest",
        "ruff",
        "mypy",
    }:
        assert importlib.util.find_spec(module), module
        folder, _, name = module.rpartition(".")
        used = rf"(from|import) {re.escape(module)}\b|from {re.escape(folder or module)} import .*\b{name}\b"
        assert re.search(used, text_of_tests()), f"no test uses {module}"


def check_module(module: str, words: list[str]) -> None:
    """The module has the sub-command, and knows the options. It is not imported, because that takes seconds."""
    path = ROOT / module.replace(".", "/")
    files = [*path.glob("*.py")] if path.is_dir() else [path.with_suffix(".py")]
    source = "\n".join(file.read_text() for file in files)
    sub_command = words[:1] if words and words[0].isalpha() else []
    for word in (*sub_command, *(word for word in words if word.startswith("--"))):
        assert f'"{word}"' in source, f"python -m {module} does not know {word}"


def check_docker(words: list[str]) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    assert words[0] == "compose"
    flags = {"up": {"--build", "--detach"}, "run": {"--rm"}}[words[1]]
    assert {word for word in words[2:] if word.startswith("-")} <= flags
    assert {word for word in words[2:] if not word.startswith("-")} <= services.keys()


def check_terraform_variables(words: list[str]) -> None:
    known = re.findall(r'^variable "(\w+)"', (ROOT / "deploy/terraform/variables.tf").read_text(), re.MULTILINE)
    named = [words[place + 1].partition("=")[0] for place, word in enumerate(words) if word == "-var"]
    assert set(named) <= set(known)


@cache
def airflow_api() -> dict[str, Any]:
    (file,) = Path(openapi.__file__).parent.glob("v2-*.yaml")
    described: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return described


def check_curl(words: list[str]) -> None:
    """A request to Airflow: the path exists, and the body fits it; `conf` has parameters of the DAG."""
    method = words[words.index("-X") + 1].lower() if "-X" in words else "get"
    body = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
    url = next(word for word in words if word.startswith("$AIRFLOW_URL/")).removeprefix("$AIRFLOW_URL")
    if url == "/auth/token":  # devstack/demo/airflow_api.py logs in there
        assert (method, body.keys()) == ("post", {"username", "password"})
        return
    (path,) = [p for p in airflow_api()["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", p), url)]
    described = airflow_api()["paths"][path][method]
    if body is None:
        assert "requestBody" not in described
        return
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**schema, "components": airflow_api()["components"]})
    assert [error.message for error in validator.iter_errors(body)] == []
    params = publish_params(read_feed(ROOT / "dags" / "feeds" / "worked_example.yaml"))
    for name, value in body.get("conf", {}).items():
        params[name].resolve(value)


def check(words: list[str], needs_cloud: bool) -> None:
    tool = words[0]
    if tool == "make":
        check_make(words[1:])
    elif words[:2] in ([".venv/bin/python", "-m"], ["python", "-m"]):
        check_module(words[2], words[3:])
    elif tool == "docker":
        check_docker(words[1:])
    elif tool == "pip":
        assert words[1] == "install"
        assert words[2] != "-r" or (ROOT / words[3]).exists()
    elif tool == "curl":
        check_curl(words)
    elif tool in TOOLS:
        assert needs_cloud or tool in CLIENTS
        check_tool(words)
        check_terraform_variables(words)
    else:
        assert tool in SHELL


def wrong(found: list[tuple[str, str]], *, inline: bool = False) -> list[str]:
    faults = []
    for page, text in found:
        for words in commands(text.replace("…", "X") if inline else text):
            try:
                check(words, inline or NEEDS_CLOUD in text)
            except (AssertionError, KeyError, StopIteration, ValueError) as error:
                faults.append(f"{page}: {shlex.join(words)}: {error!r}")
    return faults


def test_each_command_exists_and_what_it_runs_is_tested() -> None:
    found = list(blocks())
    assert wrong(found) == []
    assert len(found) > 15


def test_each_command_in_a_sentence_exists() -> None:
    found = list(inline_commands())
    assert wrong(found, inline=True) == []
    assert len(found) > 60


@pytest.mark.parametrize(
    "text",
    [
        "gcloud storage cpp a b",
        "gcloud storage cp --recursively a b",
        "bq show --jobs JOB",
        "bq list",
        "gsutil rm -z x",
        "make nothing",
        "make plan TABLE=x",
        "python -m benchmarks nothing",
        "python -m nowhere.module",
        "terraform apply -var nothing=x",
        "docker compose up nothing",
        "pip install -r nothing.txt",
        """curl -X POST "$AIRFLOW_URL/api/v2/dags/FEED_publish/dagRuns" -d '{"conf": {"snapshot": 1}}'""",
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str) -> None:
    assert INLINE.match(text)
    with pytest.raises((AssertionError, FileNotFoundError, KeyError)):
        check(shlex.split(text), needs_cloud=True)


def test_blocks_of_the_local_stack_name_a_test_that_runs_them() -> None:
    for tool, test in CLIENTS.items():
        assert tool in (ROOT / test).read_text()


def test_every_block_says_what_it_is_written_in() -> None:
    opened = re.compile(r"^ *```(\w*)\n(?:.*?\n)? *```$", re.DOTALL | re.MULTILINE)
    lacking = [page.name for page in PAGES for language in opened.findall(page.read_text()) if not language]
    assert lacking == []


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="the Google Cloud CLI is not installed")
def test_the_lists_are_those_of_the_installed_tools() -> None:
    """Google's tools list their commands and flags for the completion in shells."""
    data = Path(str(shutil.which("gcloud"))).resolve().parents[1] / "data" / "cli"
    specification = importlib.util.spec_from_file_location("completions", data / "gcloud_completions.py")
    assert specification
    assert specification.loader
    completions = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(completions)
    missing = []
    for command, flags in GCLOUD.items():
        tree = completions.STATIC_COMPLETION_CLI_TREE
        known = set(tree["flags"])
        for word in command.split():
            tree = tree["commands"].get(word, {"commands": {}, "flags": {}})
            known |= set(tree["flags"])
        missing += [f"gcloud {command} {flag}" for flag in flags if flag not in known and flag not in ("-r",)]
        missing += [] if tree.get("flags") is not None and known else [f"gcloud {command}"]
    of_bq = json.loads((data / "bq.json").read_text())
    missing += [f"bq {command}" for command in BQ if command not in of_bq["commands"]]
    missing += [f"bq {flag}" for flag in BQ_GLOBAL if flag not in of_bq["flags"]]
    assert missing == []
