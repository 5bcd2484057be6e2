"""Defines the manifest, an immutable description of a generation's content, and the candidate, the dedup job's result.

Checks compare the metadata of tables with the manifest, so they need not read table data.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import ClassVar

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.erasure import ErasedRows
from dedup_clone.contract.records import FORMAT_VERSION as FORMAT_VERSION
from dedup_clone.contract.records import record_digest
from dedup_clone.contract.table import TableContract, UpdateIdMode


class DateOutcome(StrEnum):
    """How a date of a generation came about: the plan or engine that wrote it, or why it was not written."""

    ADOPT = "adopt"
    REWRITE = "rewrite"
    WINDOW = "window"
    ANTIJOIN = "antijoin"
    BIGQUERY = "bigquery"
    MERGE = "merge"
    # No applied delivery has the date: its rows are the parent's.
    COPIED_FORWARD = "carried"
    # A rollback made the date's rows live again.
    RESTORED = "restored"
    # An erasure: the parent's rows without those of erased keys.
    ERASED = "erased"
    # Inside the dedup job only, for a replay that changes nothing: the manifest repeats the parent's outcome.
    UNCHANGED = "kept"


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a generation. `path` is relative to the data folder, `size` in bytes."""

    path: str
    date: date
    rows: int
    size: int
    min_update_id: int
    max_update_id: int


@dataclass(frozen=True)
class FileList:
    """All files of a generation. The list is stored beside the manifest and not in it, because it may be long."""

    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class DateEntry:
    """One date of a generation.

    - rows: the number of rows, and of unique keys.
    - new_keys: keys that the parent generation lacks.
    - changed: keys of both generations whose values differ; None when the plan does not compare values.
    - survivors: rows that the newest applied snapshot lacks and that are retained from earlier ones.
    - ties: surplus rows of duplicate keys within single deliveries.
    - plan, plan_reason: how the job made the date, and why it chose that plan.
    - min_update_id, max_update_id: the range of update ids among the rows.
    - adopted_delivery: the delivery whose files make up the date, as landed or rewritten to the table's physical form
      without surplus rows; None for other plans.
    - key_fingerprint: fingerprint of the keys whose rows have `max_update_id` (in mode last_changed: of the keys in
      the date's newest delivery). The fingerprints per bucket are in the data folder, `fingerprints/<date>.bin`, a
      cache: when it is absent, or does not add up to this fingerprint, it is computed again.
    - content_fingerprint: fingerprint of the values of the same rows.
    - files_digest: digest of path, rows and size of the date's files.
    - cluster_overlap: the share of row groups (of sorted runs, where the job wrote the date) that have values of the
      first clustering column in common with others of the date, survivors aside. The smaller, the fewer blocks a filter
      on that column reads. None without clustering, and where no footer says it.

    Fingerprints are hexadecimal; None when the plan computes none.
    """

    date: date
    rows: int
    new_keys: int
    changed: int | None
    survivors: int
    ties: int
    plan: DateOutcome
    plan_reason: str
    min_update_id: int
    max_update_id: int
    adopted_delivery: Delivery | None
    key_fingerprint: str | None
    content_fingerprint: str | None
    files_digest: str
    cluster_overlap: float | None = None

    NOT_IN_DIGEST: ClassVar[frozenset[str]] = frozenset({"cluster_overlap"})


@dataclass(frozen=True)
class Manifest:
    """The manifest without its file list.

    - parent: the generation that this one builds on; None for the first.
    - restores: the generation whose content a rollback made live again; `applied` is then empty.
    - retention_day: the oldest date of the table.
    - data_folder: URI of the folder with the files; None when the engine writes no files. A publish that builds on
      such a generation exports target first.
    - deliveries: all deliveries included so far, by this publish and earlier ones (the latest of each snapshot id).
    - applied: only those that this publish applied; in a replay they may have been included before.
    - excluded: those rolled back.
    - A takeover has no `deliveries` and no `applied`; the next publish goes by the update ids of its rows.
    - dropped_rows: delivered rows that were older than `retention_day`.
    """

    format_version: int
    feed: str
    generation: int
    parent: int | None
    restores: int | None
    engine: Engine
    table: TableContract
    update_id_mode: UpdateIdMode
    retention_day: date
    data_folder: str | None
    file_list_digest: str
    deliveries: tuple[Delivery, ...]
    excluded: tuple[Delivery, ...]
    applied: tuple[Delivery, ...]
    code_version: str
    run_id: str
    attempt: str
    created_at: datetime
    dropped_rows: int
    dates: tuple[DateEntry, ...]

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.dates)

    @property
    def cluster_overlap(self) -> float | None:
        """The dates' `cluster_overlap`, weighted by rows; None if it is known of no date."""
        known = [(entry.rows, entry.cluster_overlap) for entry in self.dates if entry.cluster_overlap is not None]
        rows = sum(rows for rows, _ in known)
        return sum(rows * share for rows, share in known) / rows if rows else None

    @property
    def snapshot_id(self) -> int:
        """The newest snapshot included; after a takeover, the table's highest update id."""
        if self.deliveries:
            return self.deliveries[-1].snapshot_id
        return max((entry.max_update_id for entry in self.dates), default=0)

    @property
    def digest(self) -> str:
        """Identifies the manifest in table labels and in STAGING: equal digests mean equal manifests."""
        return record_digest(self)


@dataclass(frozen=True)
class DeliveryMetrics:
    """Counts of one applied delivery: its rows, those older than the retention, and surplus rows of duplicate keys."""

    delivery: Delivery
    rows: int
    dropped_rows: int
    ties: int


@dataclass(frozen=True)
class RefusedDelivery:
    """A delivery that breaks the data contract. `reason` names file, column, count and the next step."""

    delivery: Delivery
    reason: str


class Difference(StrEnum):
    """How a row of a generation differs from the row of its key in the parent generation or in the newest snapshot."""

    NEW = "new"  # the parent has no row of the key
    CHANGED = "changed"  # the parent's row has other values
    SURVIVOR = "survivor"  # the newest snapshot has no row of the key


@dataclass(frozen=True)
class KeyExample:
    """The key of one row that differs. It is shown if a check finds too many of them. `key`: text, `name=value, …`."""

    date: date
    difference: Difference
    key: str


@dataclass(frozen=True)
class DateMetrics:
    """The work for one date: bytes as stored, wall-clock seconds (None if Spark processed several dates at once)."""

    date: date
    bytes_read: int
    bytes_written: int
    seconds: float | None


@dataclass(frozen=True)
class DedupMetrics:
    """The work of the dedup job: bytes as stored, and wall-clock seconds by phase.

    `dates`: the work for each date that was not copied forward.
    """

    bytes_read: int
    bytes_written: int
    seconds: dict[str, float]
    dates: tuple[DateMetrics, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """The result of the dedup job. `manifest` is None when every delivery was refused: there is nothing to publish.

    Writing `candidate.json` is the job's commit point. The object is created only if it is absent, so that of two jobs
    with the same request (a retry and an orphan) the first one wins. The file list and the list of URIs to load thus
    have names unique to each run of the job, given here (None without a manifest, and where an engine writes no files).
    `examples` are up to three keys per difference and date. `erased` is None where no key was ever erased.
    `changes_uri`: the list of the files, below the attempt's folder of changes, with the rows that differ from the
    parent's, in the form of `FEED_changes`; None where none were requested, without a parent, and for an erasure.
    """

    manifest: Manifest | None
    file_list_uri: str | None
    load_uris_uri: str | None
    deliveries: tuple[DeliveryMetrics, ...]
    refused: tuple[RefusedDelivery, ...]
    examples: tuple[KeyExample, ...]
    metrics: DedupMetrics
    erased: ErasedRows | None = None
    changes_uri: str | None = None
