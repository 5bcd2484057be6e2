"""Copies the parent's files of dates that get no new files, inside the storage.

So the data folder of each generation has all its files, and folders of older generations can be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from dedup_spark import storage
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.fingerprints import stored
from dedup_spark.parent import Parent


@dataclass(frozen=True)
class _Copier:
    """Copies one object, given its path, which is the same below both folders."""

    source_folder_uri: str
    target_folder_uri: str

    def __call__(self, path: str) -> None:
        storage.copy(storage.join(self.source_folder_uri, path), storage.join(self.target_folder_uri, path))


def copy_forward(
    parent: Parent, dates: frozenset[date], fingerprint_dates: frozenset[date], data_uri: str, fan_out: FanOut
) -> None:
    """Copy the files of `dates`, and those stored fingerprints of `fingerprint_dates` that the parent has.

    The files keep their paths below the data folder, so the `files_digest` of a date does not change.
    """
    paths = [file.path for file in parent.files if file.date in dates]
    if fingerprint_dates:
        stored_names = storage.list_objects(storage.join(parent.data_uri, stored.FOLDER))
        fingerprint_paths = [stored.path_of(day) for day in sorted(fingerprint_dates)]
        paths += [path for path in fingerprint_paths if path.removeprefix(f"{stored.FOLDER}/") in stored_names]
    fan_out.map(_Copier(parent.data_uri, data_uri), paths, total_bytes=0, description="copy files of the parent")
