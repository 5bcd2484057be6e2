"""The Spark job as it is shipped: one main file and one zip, the same bytes from the same sources, named by content."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAIN = "dedup_snapshot.py"
ARCHIVE = "dedup_spark.zip"
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # what a zip can say; the time of a checkout is no part of the content
_READABLE = 0o100644 << 16


@dataclass(frozen=True)
class SparkCode:
    """`digest` names both: equal sources have equal digests, wherever and whenever they are packed."""

    main: bytes
    archive: bytes
    digest: str


def build_spark_code(repository: Path) -> SparkCode:
    """The job's main file, and what it imports: `dedup_spark` and the contract that it shares with the DAGs.

    Raises FileNotFoundError when `repository` is not the source tree.
    """
    main = (repository / "spark_jobs" / MAIN).read_bytes()
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
    """Stored, not deflated: what compression makes of the same text depends on the library's version."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(modules):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.external_attr = _READABLE
            archive.writestr(entry, modules[name])
    return buffer.getvalue()
