"""Makes the objects of a release from the repository."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import google_crc32c

from dedup_clone.contract.errors import ConfigurationError
from deploy.environment_settings import SPARK_CODE_PREFIX
from devstack.spark_archive import ARCHIVE_FILE, MAIN_FILE, build_spark_code

# The types, and the names, of the files that are released. Any other file in the released folders is an error.
SHIPPED_SUFFIXES = frozenset({".py", ".yaml", ".sql", ".jinja", ".js", ".css", ".html", ".svg"})
SHIPPED_NAMES = frozenset({".airflowignore", "LICENSE"})
SPARK_CODE_FILE = "dags/spark_code.json"


@dataclass(frozen=True)
class ContentChecksum:
    """Identifies the content of an object in a bucket. `crc32c`: in base64, as in Cloud Storage. `size`: in bytes."""

    crc32c: str
    size: int


@dataclass(frozen=True)
class ReleaseObject:
    """One object of a release. `part` is shown to the user: dags, plugins, sql or spark."""

    part: str
    bucket: str
    name: str
    content: bytes

    @property
    def uri(self) -> str:
        return f"gs://{self.bucket}/{self.name}"

    @cached_property
    def checksum(self) -> ContentChecksum:
        crc32c = google_crc32c.value(self.content).to_bytes(4, "big")
        return ContentChecksum(base64.b64encode(crc32c).decode(), len(self.content))


def make_release(repository: Path, *, environment_bucket: str, state_bucket: str) -> tuple[ReleaseObject, ...]:
    """All objects of a release, sorted by URI. Raises ConfigurationError for a file of another type."""
    items = [
        *_folder_objects(repository / "dags", "dags", environment_bucket, "dags/"),
        *_folder_objects(repository / "plugins", "plugins", environment_bucket, "plugins/"),
        # Below dags/, because Airflow's workers can read only dags/ and plugins/.
        *_folder_objects(repository / "sql", "sql", environment_bucket, "dags/sql/"),
        *_spark_objects(repository, environment_bucket, state_bucket),
    ]
    return tuple(sorted(items, key=lambda item: item.uri))


def _folder_objects(folder: Path, part: str, bucket: str, prefix: str) -> Iterator[ReleaseObject]:
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        if path.suffix not in SHIPPED_SUFFIXES and path.name not in SHIPPED_NAMES:
            raise ConfigurationError(
                f"[{path}] has none of the types that are released, {sorted(SHIPPED_SUFFIXES)}: delete or move it, or "
                f"add its type to SHIPPED_SUFFIXES in deploy/release/release_content.py."
            )
        yield ReleaseObject(part, bucket, prefix + path.relative_to(folder).as_posix(), path.read_bytes())


def _spark_objects(repository: Path, environment_bucket: str, state_bucket: str) -> Iterator[ReleaseObject]:
    """The job's main file and archive, in a folder named by their digest, and the record that gives DAGs their URIs."""
    code = build_spark_code(repository)
    folder = f"{SPARK_CODE_PREFIX}{code.digest}/"
    main = ReleaseObject("spark", state_bucket, folder + MAIN_FILE, code.main)
    archive = ReleaseObject("spark", state_bucket, folder + ARCHIVE_FILE, code.archive)
    record = json.dumps({"archive": archive.uri, "main": main.uri}, indent=2) + "\n"
    yield from (main, archive, ReleaseObject("spark", environment_bucket, SPARK_CODE_FILE, record.encode()))
