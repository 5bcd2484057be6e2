"""The manifest of a generation: the immutable proof of what was published. Checks run on it, not on the tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.records import digest, to_json
from dedup_clone.contract.table import TableContract, UpdateIdMode

FORMAT_VERSION = 1


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a generation; `path` relative to the data folder, `size` in bytes."""

    path: str
    date: date
    rows: int
    size: int
    min_update_id: int
    max_update_id: int


@dataclass(frozen=True)
class FileList:
    """All files of a generation, kept beside the manifest header because it may be long."""

    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class DateEntry:
    """One date of a generation.

    rows: unique keys. new_keys: keys that the parent lacked. changed: keys of both whose values differ (None when the
    plan does not compare values). survivors: rows that the newest applied snapshot lacks. ties: surplus rows of equal
    keys inside single deliveries. `adopted_delivery` is the one whose files the date holds, each as it is or written
    anew, without surplus rows and in the form of the table. Fingerprints are hex texts, None when the plan keeps none;
    `key_fingerprint` is of the keys whose rows have `max_update_id` (in mode last_changed, of those that the date's
    newest delivery holds), and their bucket fingerprints lie in the data folder, `fingerprints/<date>.bin`: an aid that
    may be absent, computed again when it does not fold to this text. `content_fingerprint` is of those rows' values.
    `files_digest` is over path, rows and size of the date's files.
    """

    date: date
    rows: int
    new_keys: int
    changed: int | None
    survivors: int
    ties: int
    plan: str
    plan_reason: str
    min_update_id: int
    max_update_id: int
    adopted_delivery: Delivery | None
    key_fingerprint: str | None
    content_fingerprint: str | None
    files_digest: str


@dataclass(frozen=True)
class Manifest:
    """The header. `deliveries` are all ever folded in (the latest of each id), `applied` those of this publish.

    `restores` is the generation whose content a rollback made live again; `applied` is then empty. Both lists are
    empty for a table that was taken over: the next delivery builds on its rows' own update ids. `data_folder` is None
    where an engine left no files: whoever builds on the generation exports target first.
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
    def snapshot_id(self) -> int:
        """What readers see: the newest snapshot folded in; of a table that was taken over, its highest update id."""
        if self.deliveries:
            return self.deliveries[-1].snapshot_id
        return max((entry.max_update_id for entry in self.dates), default=0)

    @property
    def digest(self) -> str:
        """Names this manifest in labels and in STAGING: equal digests mean equal manifests."""
        return digest(to_json(self))


@dataclass(frozen=True)
class DeliveryMetrics:
    """What one applied delivery brought: rows read, rows older than the retention (dropped), ties."""

    delivery: Delivery
    rows: int
    dropped_rows: int
    ties: int


@dataclass(frozen=True)
class RefusedDelivery:
    """A delivery that breaks the data contract; `reason` names file, column and count, and the next step."""

    delivery: Delivery
    reason: str


class Difference(StrEnum):
    """How a row differs from the parent's: its key is new, its values changed, or the newest snapshot lacks it."""

    NEW = "new"
    CHANGED = "changed"
    SURVIVOR = "survivor"


@dataclass(frozen=True)
class KeyExample:
    """One key of that difference, for whoever asks why a share is out of bounds. `key` is text: `name=value, …`."""

    date: date
    difference: Difference
    key: str


@dataclass(frozen=True)
class DateMetrics:
    """Cost of one date: bytes as stored, seconds of wall time (None where Spark worked on many dates at once)."""

    date: date
    bytes_read: int
    bytes_written: int
    seconds: float | None


@dataclass(frozen=True)
class DedupMetrics:
    """Cost of the Spark job: bytes as stored, seconds of wall time by phase. `dates` are those not merely copied."""

    bytes_read: int
    bytes_written: int
    seconds: dict[str, float]
    dates: tuple[DateMetrics, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """What the dedup job hands back. `manifest` is None when every delivery was refused: nothing to publish.

    The candidate is the job's one commit point: `candidate.json` is created only if absent, so that of two jobs that
    work on one request (a retry beside an orphan) the first wins and the other changes nothing. Its file list and its
    list of URIs to load therefore have names of their own for each run of the job, given here (None without manifest,
    and where an engine left no files). `examples` are a few keys of each difference, at most three a date.
    """

    manifest: Manifest | None
    file_list_uri: str | None
    load_uris_uri: str | None
    deliveries: tuple[DeliveryMetrics, ...]
    refused: tuple[RefusedDelivery, ...]
    examples: tuple[KeyExample, ...]
    metrics: DedupMetrics
