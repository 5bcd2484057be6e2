"""Packs the Spark job, for releases and the stack: a main file and a zip whose bytes depend only on the sources."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAIN_FILE = "dedup_snapshot.py"
ARCHIVE_FILE = "dedup_spark.zip"
_FILE_TIME = (1980, 1, 1, 0, 0, 0)  # the same for all files, so that the archive depends on their content only
_READABLE = 0o100644 << 16  # the file mode, where a zip stores it


@dataclass(frozen=True)
class SparkCode:
    """The Spark job as two files. `digest`: of the content of both, so equal sources always have equal digests."""

    main: bytes
    archive: bytes
    digest: str


def build_spark_code(repository: Path) -> SparkCode:
    """Packs the job's main file, and an archive of `dedup_spark` and of `dedup_clone.contract`.

    Raises FileNotFoundError when `repository` is not the source tree.
    """
    main = (repository / "spark_jobs" / MAIN_FILE).read_bytes()
    archive = _zip(dict(_modules(repository)))
    digest = hashlib.sha256(main + archive).hexdigest()[:16]
    return SparkCode(main, archive, digest)


def _modules(repository: Path) -> Iterator[tuple[str, bytes]]:
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
