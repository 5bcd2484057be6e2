"""What a release consists of: every object with its bucket, name and bytes, made from the repository."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import google_crc32c

from dedup_clone.contract.errors import ConfigurationError
from deploy.settings import SPARK_CODE_PREFIX
from deploy.spark_archive import ARCHIVE, MAIN, build_spark_code

# What Airflow, Jinja and the page read. Anything else in these folders was not meant to be shipped, and is named.
SHIPPED_SUFFIXES = frozenset({".py", ".yaml", ".sql", ".jinja", ".js", ".css", ".html", ".svg"})
SHIPPED_NAMES = frozenset({".airflowignore", "LICENSE"})
SPARK_CODE_FILE = "dags/spark_code.json"


@dataclass(frozen=True)
class Print:
    """What tells one content from another in a bucket's listing. `crc32c` as Cloud Storage writes it: base64."""

    crc32c: str
    size: int


@dataclass(frozen=True)
class Item:
    """One object of the release. `part` is what a person calls it: dags, plugins, sql, spark."""

    part: str
    bucket: str
    name: str
    content: bytes

    @property
    def uri(self) -> str:
        return f"gs://{self.bucket}/{self.name}"

    @cached_property
    def print(self) -> Print:
        checksum = google_crc32c.value(self.content).to_bytes(4, "big")
        return Print(base64.b64encode(checksum).decode(), len(self.content))


def make_release(repository: Path, *, environment_bucket: str, state_bucket: str) -> tuple[Item, ...]:
    """All objects of a release, sorted by address. Raises ConfigurationError for a file that nobody would read."""
    items = [
        *_folder(repository / "dags", "dags", environment_bucket, "dags/"),
        *_folder(repository / "plugins", "plugins", environment_bucket, "plugins/"),
        # Workers see dags/ and plugins/ only.
        *_folder(repository / "sql", "sql", environment_bucket, "dags/sql/"),
        *_spark(repository, environment_bucket, state_bucket),
    ]
    return tuple(sorted(items, key=lambda item: item.uri))


def _folder(folder: Path, part: str, bucket: str, prefix: str) -> Iterator[Item]:
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        if path.suffix not in SHIPPED_SUFFIXES and path.name not in SHIPPED_NAMES:
            raise ConfigurationError(
                f"[{path}] is of no kind that is shipped {sorted(SHIPPED_SUFFIXES)}: delete or move it, or add its "
                f"kind to SHIPPED_SUFFIXES in deploy/release/content.py."
            )
        yield Item(part, bucket, prefix + path.relative_to(folder).as_posix(), path.read_bytes())


def _spark(repository: Path, environment_bucket: str, state_bucket: str) -> Iterator[Item]:
    """The job's main file and archive under their content's name, and the record that tells the DAGs that name."""
    code = build_spark_code(repository)
    folder = f"{SPARK_CODE_PREFIX}{code.digest}/"
    main = Item("spark", state_bucket, folder + MAIN, code.main)
    archive = Item("spark", state_bucket, folder + ARCHIVE, code.archive)
    record = json.dumps({"archive": archive.uri, "main": main.uri}, indent=2) + "\n"
    yield from (main, archive, Item("spark", environment_bucket, SPARK_CODE_FILE, record.encode()))
