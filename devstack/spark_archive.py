"""Packs the Spark job into a main file and a zip, for releases and the stack. Equal sources give equal bytes."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAIN_FILE = "dedup_snapshot.py"
ARCHIVE_FILE = "dedup_spark.zip"
_FILE_TIME = (1980, 1, 1, 0, 0, 0)  # of every file in the zip, whose bytes must not depend on times
_READABLE = 0o100644 << 16  # the file mode in the bits where a zip stores it


@dataclass(frozen=True)
class SparkCode:
    """The Spark job as two files. `digest`: of the content of both, in 16 hexadecimal digits."""

    main: bytes
    archive: bytes
    digest: str


def build_spark_code(repository: Path) -> SparkCode:
    """The job's main file, and a zip of the packages `dedup_spark` and `dedup_clone.contract`.

    Raises FileNotFoundError if `repository` is not the folder of this project's sources.
    """
    main = (repository / "spark_jobs" / MAIN_FILE).read_bytes()
    archive = _zip(dict(_modules(repository)))
    digest = hashlib.sha256(main + archive).hexdigest()[:16]
    return SparkCode(main, archive, digest)


def _modules(repository: Path) -> Iterator[tuple[str, bytes]]:
    """The path in the zip and the content of each packed module."""
    plugins, spark_jobs = repository / "plugins", repository / "spark_jobs"
    yield "dedup_clone/__init__.py", (plugins / "dedup_clone" / "__init__.py").read_bytes()
    for root, package in ((plugins, "dedup_clone/contract"), (spark_jobs, "dedup_spark")):
        for path in (root / package).rglob("*.py"):
            yield path.relative_to(root).as_posix(), path.read_bytes()


def _zip(modules: dict[str, bytes]) -> bytes:
    """The zip, not compressed, because compressed bytes depend on the version of zlib."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(modules):
            entry = zipfile.ZipInfo(name, _FILE_TIME)
            entry.external_attr = _READABLE
            archive.writestr(entry, modules[name])
    return buffer.getvalue()
