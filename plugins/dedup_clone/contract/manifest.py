"""Defines the manifest, which describes a generation's content, and the candidate, which is the dedup job's result.

A manifest never changes. Checks compare it with the metadata of tables, so they need not read table data.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from dedup_clone.contract.attempt import Attempt, Kind, Plan
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.erasure import ErasedRows
from dedup_clone.contract.records import record_digest
from dedup_clone.contract.table import Absent, TableContract, UpdateIdMode


class DateOutcome(StrEnum):
    """How a date of a generation came about: the plan or engine that wrote it, or why it was not written."""

    ADOPT = Plan.ADOPT.value
    REWRITE = Plan.REWRITE.value
    WINDOW = Plan.WINDOW.value
    BIGQUERY = Engine.BIGQUERY.value
    MERGE = Engine.MERGE.value
    # No applied delivery has the date: its rows are the parent's.
    COPIED_FORWARD = "copied forward"
    # A rollback made the date's rows live again.
    RESTORED = "restored"
    # An erasure made the date: the parent's rows without the rows of erased keys.
    ERASED = "erased"
    # A replay changes nothing on the date. The manifest then has the parent's outcome; it has this one only where the
    # parent's is "copied forward".
    UNCHANGED = "unchanged"


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

    @property
    def row_count(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class DateEntry:
    """One date of a generation.

    - rows: the number of rows, and of unique keys. 0 only if all were erased while `absent_keys` was DELETE.
    - new_keys: the number of keys that the parent generation lacks.
    - changed: the number of keys of both generations whose values differ; None when the plan does not compare values.
    - survivors: the number of rows retained from earlier snapshots although the newest applied snapshot lacks their
      keys.
    - deleted: the number of keys of the parent that are gone, because the newest applied snapshot lacks them.
    - ties: the number of surplus rows of duplicate keys within single deliveries.
    - plan, plan_reason: how the job made the date, and why it chose that plan.
    - min_update_id, max_update_id: the range of update ids among the rows; without rows, among those that were erased.
    - adopted_delivery: the delivery whose files make up the date, either as landed or rewritten (to the table's
      physical form, or without surplus rows); None if another plan wrote the files.
    - key_fingerprint: fingerprint of the rows that have `max_update_id` (in mode last_changed: of the rows of the
      date's newest delivery), keys and values. The file `sketches/<date>.bin` in the data folder has a sketch of these
      rows. If the file is absent, or has another fingerprint, the sketch is computed again.
    - files_digest: digest of path, rows and size of the date's files.
    - cluster_overlap: the share of the date's row groups whose range of values in the first clustering column overlaps
      with the range of another row group. In files that the job wrote, sorted runs of rows count, not row groups.
      Survivors are left out. The smaller the share, the less a query with a filter on the column reads. None without
      clustering, or if the ranges of values are not known.
    - newest_snapshot: the id of the newest snapshot that has the date. The snapshot contains the keys whose rows have
      this update id; an erasure may have removed all of them. None if update ids do not tell which keys it contains: in
      mode last_changed, and after a bootstrap.

    A fingerprint is hexadecimal; None when the plan computes none.
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
    files_digest: str
    cluster_overlap: float | None = None
    newest_snapshot: int | None = None
    deleted: int = 0


def newest_snapshot(mode: UpdateIdMode, snapshot_ids: Collection[int], parent_entry: DateEntry | None) -> int | None:
    """The `newest_snapshot` of a date after a publish that applies the deliveries `snapshot_ids` to it.

    `parent_entry`: the date's entry in the parent; None if the parent lacks the date.
    """
    known = parent_entry.newest_snapshot if parent_entry else None
    if not snapshot_ids:
        return known
    newest = max(snapshot_ids)
    if mode is UpdateIdMode.LAST_CHANGED or (parent_entry and known is None and newest < parent_entry.max_update_id):
        return None
    return newest if known is None else max(newest, known)


@dataclass(frozen=True)
class Manifest:
    """The content of one generation. The list of files is stored apart (FileList).

    - parent: the generation that this one builds on; None for the first.
    - kind: what the attempt did that made it.
    - restores: the generation whose content a rollback made live again; None unless a rollback made this generation.
    - retention_day: the oldest date that the table may have.
    - data_folder: URI of the folder with the files; None when the engine writes no files. The first publish by engine
      `spark` or `cdc` on such a generation exports target first.
    - deliveries: all deliveries that the content includes, the latest of each snapshot id. A bootstrap has none; the
      next publish then relies on the update ids in the rows.
    - applied: the deliveries that this publish applied; a replay may apply deliveries that the parent includes. Empty
      for rollbacks, bootstraps, rebuilds and erasures.
    - excluded: the deliveries that a rollback took out.
    - dropped_rows: how many rows of the deliveries and of the parent were older than `retention_day`.
    - deleted_dates: the parent's dates within the retention that are gone, each with its rows.
    - has_deleted: whether this generation, or one that it builds on, was made with `absent_keys` DELETE. It may then
      lack rows of its deliveries, which a replay of one of them may bring back.
    """

    feed: str
    kind: Kind
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
    deleted_dates: dict[date, int] = field(default_factory=dict)
    has_deleted: bool = False

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.dates)

    @property
    def dates_with_rows(self) -> tuple[DateEntry, ...]:
        """The dates that have rows."""
        return tuple(entry for entry in self.dates if entry.rows)

    @property
    def cluster_overlap(self) -> float | None:
        """The mean of the dates' `cluster_overlap`, weighted by rows; None if no date has one."""
        measured = [(entry.rows, entry.cluster_overlap) for entry in self.dates if entry.cluster_overlap is not None]
        total_rows = sum(rows for rows, _ in measured)
        return sum(rows * share for rows, share in measured) / total_rows if total_rows else None

    @property
    def snapshot_id(self) -> int:
        """The id of the newest snapshot included; the table's highest update id if no delivery is included."""
        if self.deliveries:
            return self.deliveries[-1].snapshot_id
        return max((entry.max_update_id for entry in self.dates), default=0)

    @property
    def newest_id(self) -> int | None:
        """The highest snapshot id among its deliveries and rows; None if it has neither."""
        ids = [d.snapshot_id for d in self.deliveries] + [entry.max_update_id for entry in self.dates]
        return max(ids, default=None)

    @property
    def digest(self) -> str:
        """Identifies the manifest in table labels, and in CURRENT."""
        return record_digest(self)


def new_manifest(
    attempt: Attempt,
    applied: tuple[Delivery, ...],
    dates: tuple[DateEntry, ...],
    *,
    dropped_rows: int,
    created_at: datetime,
    data_folder: str | None = None,
    file_list_digest: str = "",
    deleted_dates: dict[date, int] | None = None,
) -> Manifest:
    """The manifest of the generation that the attempt's dedup made. `applied`: the deliveries that it applied."""
    return Manifest(
        feed=attempt.feed,
        kind=attempt.kind,
        generation=attempt.generation,
        parent=attempt.parent if attempt.parent_files else None,
        restores=None,
        engine=attempt.engine,
        table=attempt.table,
        update_id_mode=attempt.update_id_mode,
        retention_day=attempt.retention_day,
        data_folder=data_folder,
        file_list_digest=file_list_digest,
        deliveries=attempt.included_deliveries(applied),
        excluded=attempt.excluded,
        applied=applied,
        code_version=attempt.code_version,
        run_id=attempt.run_id,
        attempt=attempt.id,
        created_at=created_at,
        dropped_rows=dropped_rows,
        dates=dates,
        deleted_dates=deleted_dates or {},
        has_deleted=attempt.has_deleted or attempt.table.absent_keys is Absent.DELETE,
    )


@dataclass(frozen=True)
class DeliveryMetrics:
    """Row counts of one applied delivery.

    `dropped_rows`: the rows older than the retention. `ties`: the surplus rows of duplicate keys.
    """

    delivery: Delivery
    rows: int
    dropped_rows: int
    ties: int


@dataclass(frozen=True)
class RefusedDelivery:
    """A delivery that breaks the data contract. `reason` says what is wrong, where, and what the producer should do."""

    delivery: Delivery
    reason: str


class Difference(StrEnum):
    """How a row of a generation differs from the row of its key in the parent generation or in the newest snapshot."""

    NEW = "new"  # the parent has no row of the key
    CHANGED = "changed"  # the parent's row has other values
    SURVIVOR = "survivor"  # the newest snapshot has no row of the key


# For each kind of difference, a candidate has up to three keys of each of the twenty dates with the most such rows.
# sql/engines/evidence.sql repeats the limit of three.
EXAMPLES_PER_DATE = 3
DATES_WITH_EXAMPLES = 20


@dataclass(frozen=True)
class KeyExample:
    """The key of a row that differs, as text `name=value, …`. A check that finds too many such rows shows some keys."""

    date: date
    difference: Difference
    key: str


@dataclass(frozen=True)
class Candidate:
    """The result of the dedup job. `manifest` is None when every delivery was refused: there is nothing to publish.

    Writing `candidate.json` is the job's commit point. The object is created only if it is absent. So if two runs have
    the same attempt (a retry, and a first run that is still alive), the first to end wins.

    - file_list_uri, load_uris_uri: where the list of files, and the list of URIs to load, are stored. Their names are
      unique to each run of the job. None without a manifest, and for an engine that writes no files.
    - examples: keys of rows that differ (see EXAMPLES_PER_DATE).
    - seconds: how long each phase of the dedup took; empty if none ran.
    - erased: None if no key of the feed was ever erased, and for a replay that changes nothing.
    - reused_from: the attempt whose dedup job made the files; empty if the attempt's own job did. A replay that accepts
      a failed check takes them from the attempt that the check stopped.
    - changes_uri: URI of the list of the files with rows for the table `FEED_changes`. None if the attempt asks for no
      changes, without a parent that has dates within the retention, and for an erasure.
    """

    manifest: Manifest | None = None
    file_list_uri: str | None = None
    load_uris_uri: str | None = None
    deliveries: tuple[DeliveryMetrics, ...] = ()
    refused: tuple[RefusedDelivery, ...] = ()
    examples: tuple[KeyExample, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    erased: ErasedRows | None = None
    changes_uri: str | None = None
    reused_from: str = ""
