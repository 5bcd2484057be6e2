"""Dates that keep the parent's files: copied server-side, so that the new data folder is complete by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.manifest import DataFile
from dedup_spark import storage
from dedup_spark.fan_out import FanOut
from dedup_spark.fingerprints import stored
from dedup_spark.parent import Parent


@dataclass(frozen=True)
class _Copier:
    source_uri: str
    target_uri: str

    def __call__(self, path: str) -> None:
        storage.copy(storage.join(self.source_uri, path), storage.join(self.target_uri, path))


def carry(
    parent: Parent, dates: frozenset[date], fingerprints_of: frozenset[date], data_uri: str, fan_out: FanOut
) -> list[DataFile]:
    """The files keep their relative paths, so a carried date keeps the digest of its files.

    Fingerprints are an aid to the next publish: of `fingerprints_of`, those that the parent has are copied too.
    """
    files = [file for file in parent.files if file.date in dates]
    paths = [file.path for file in files]
    if fingerprints_of:
        held = storage.list_objects(storage.join(parent.data_uri, stored.FOLDER))
        wanted = [stored.path_of(day) for day in sorted(fingerprints_of)]
        paths += [path for path in wanted if path.removeprefix(f"{stored.FOLDER}/") in held]
    fan_out.map(_Copier(parent.data_uri, data_uri), paths, 0, "copy carried files")
    return files
