"""Copies the parent's files of unchanged dates on the server, so that the new data folder is complete by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_spark import storage
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.fingerprints import stored
from dedup_spark.parent import Parent


@dataclass(frozen=True)
class _Copier:
    source_uri: str
    target_uri: str

    def __call__(self, path: str) -> None:
        storage.copy(storage.join(self.source_uri, path), storage.join(self.target_uri, path))


def copy_forward(
    parent: Parent, dates: frozenset[date], fingerprints_of: frozenset[date], data_uri: str, fan_out: FanOut
) -> None:
    """Copy the files of `dates` and, where the parent has them, the stored fingerprints of `fingerprints_of`.

    The files keep their relative paths, so that a date keeps the digest of its files.
    """
    paths = [file.path for file in parent.files if file.date in dates]
    if fingerprints_of:
        stored_names = storage.list_objects(storage.join(parent.data_uri, stored.FOLDER))
        fingerprints = [stored.path_of(day) for day in sorted(fingerprints_of)]
        paths += [path for path in fingerprints if path.removeprefix(f"{stored.FOLDER}/") in stored_names]
    fan_out.map(_Copier(parent.data_uri, data_uri), paths, 0, "copy carried files")
