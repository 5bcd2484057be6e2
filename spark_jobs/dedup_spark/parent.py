"""Reads the parent generation from its manifest and its file list. This module reads no data files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import DataFile, DateEntry, FileList, Manifest
from dedup_clone.contract.records import digest, from_json
from dedup_clone.contract.table import Absent
from dedup_spark import storage
from dedup_spark.sketch import stored
from dedup_spark.sketch.row_words import RowEncoder

# The source number of rows of the parent. The deliveries are the sources 1, 2 and so on, the oldest first.
PARENT_SOURCE = 0


@dataclass(frozen=True)
class ParentDate:
    """One date of the parent: its entry in the manifest, and its files below `data_uri`."""

    data_uri: str
    files: tuple[DataFile, ...]
    entry: DateEntry

    @property
    def bytes(self) -> int:
        """The stored bytes of the date's files."""
        return sum(file.size for file in self.files)

    @property
    def differing_rows(self) -> int:
        """An estimate of how many rows this publish will add or find missing; a changed row counts as both.

        It is the number of the publish that made the parent, assuming that as many keys went missing as were new. 0 if
        more than a quarter of the rows differed, as in the date's first publish: that says nothing about the next one.
        """
        differing = 2 * (self.entry.new_keys + (self.entry.changed or 0))
        return differing if 4 * differing <= self.entry.rows else 0

    @property
    def base_files(self) -> list[int]:
        """The numbers of the files that have rows of its base, which have the date's highest update_id."""
        return [number for number, file in enumerate(self.files) if file.max_update_id == self.entry.max_update_id]

    @property
    def survivor_files(self) -> list[int]:
        """The numbers of the files that have other rows, the survivors."""
        return [number for number, file in enumerate(self.files) if file.min_update_id < self.entry.max_update_id]

    def uri(self, file: DataFile) -> str:
        return storage.join(self.data_uri, file.path)

    def stored_sketch(self, encoder: RowEncoder) -> stored.StoredSketch | None:
        """The date's stored sketch; None if absent, damaged, of other columns or seed, or not that of the manifest."""
        uri, expected = storage.join(self.data_uri, stored.path_of(self.entry.date)), self.entry.key_fingerprint
        return stored.read(uri, encoder, expected) if expected else None


@dataclass(frozen=True)
class Parent:
    """The parent's dates and files within the retention.

    - newest_id: the highest snapshot id among its deliveries and rows; None if it has neither.
    - dropped_rows: how many of its rows are older than the retention.
    - deliveries: the deliveries that it contains, with all their rows of dates from `complete_since` on. Empty if the
      new generation has other columns or another update_id mode; then `dates` has no fingerprints either. Empty, too,
      if rows were or are deleted that a newer snapshot lacks.
    - has_other_columns: whether the new generation has other columns.
    """

    data_uri: str = ""
    dates: dict[date, DateEntry] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()
    newest_id: int | None = None
    dropped_rows: int = 0
    deliveries: frozenset[Delivery] = frozenset()
    complete_since: date = date.max
    has_other_columns: bool = False

    def on_date(self, day: date) -> ParentDate | None:
        """The parent's rows of this date; None if it has none."""
        entry = self.dates.get(day)
        if entry is None or not entry.rows:
            return None
        return ParentDate(self.data_uri, self.files_of(day), entry)

    def files_of(self, day: date) -> tuple[DataFile, ...]:
        return tuple(self._by_date.get(day, ()))

    @cached_property
    def _by_date(self) -> dict[date, list[DataFile]]:
        return files_by_date(self.files)


def files_by_date(files: Iterable[DataFile]) -> defaultdict[date, list[DataFile]]:
    found: defaultdict[date, list[DataFile]] = defaultdict(list)
    for file in files:
        found[file.date].append(file)
    return found


def read_parent(attempt: Attempt) -> Parent:
    """Return the parent that the attempt names; an empty one for a feed's first generation.

    Raises ContractViolation if its manifest or file list is malformed, or if the file list has another digest than the
    attempt names; FileNotFoundError if the manifest or the file list is absent.
    """
    if attempt.parent_files is None:
        return Parent()
    reference = attempt.parent_files
    manifest = from_json(Manifest, storage.read_text(reference.manifest_uri), where=reference.manifest_uri)
    text = storage.read_text(reference.file_list_uri)
    if digest(text) != reference.file_list_digest:
        raise ContractViolation(
            f"File list [{reference.file_list_uri}] has digest [{digest(text)}], expected "
            f"[{reference.file_list_digest}] as generation [{manifest.generation}] says: restore the object from its "
            f"versions."
        )
    listed = from_json(FileList, text, where=reference.file_list_uri)
    oldest, has_other_columns = attempt.retention_day, manifest.table.columns != attempt.table.columns
    is_comparable = manifest.update_id_mode is attempt.update_id_mode and not has_other_columns
    # A publish that deletes must read even deliveries that were live before.
    is_complete = is_comparable and not manifest.has_deleted and attempt.table.absent_keys is Absent.KEEP
    entries = manifest.dates if is_comparable else tuple(replace(e, key_fingerprint=None) for e in manifest.dates)
    return Parent(
        data_uri=reference.data_uri,
        dates={entry.date: entry for entry in entries if entry.date >= oldest},
        files=tuple(file for file in listed.files if file.date >= oldest),
        newest_id=manifest.newest_id,
        dropped_rows=sum(e.rows for e in manifest.dates if e.date < oldest),
        deliveries=frozenset(manifest.deliveries if is_complete else ()),
        complete_since=manifest.retention_day,
        has_other_columns=has_other_columns,
    )
