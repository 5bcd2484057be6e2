"""The request to the dedup job. There is one request per attempt; the names in it are unique to the attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import ClassVar

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.table import TableContract, UpdateIdMode


class Plan(StrEnum):
    """How the job deduplicates a date (docs/architecture.md). AUTO selects a plan for each date."""

    AUTO = "auto"
    ADOPT = "adopt"
    REWRITE = "rewrite"
    WINDOW = "window"
    ANTIJOIN = "antijoin"


# What a replay may ask for. The other plans are a fallback and the reference for tests; a feed's file may name them.
REPLAY_PLANS = (Plan.AUTO, Plan.ADOPT, Plan.REWRITE)

# The default size of data files, efficient for BigQuery loads and for Spark.
DEFAULT_FILE_BYTES = 256 << 20
# BigQuery's limit of source URIs in the configuration of one job (quotas.md). It does not apply to the files that a
# manifest of URIs lists: of these one load job takes ten million.
URIS_PER_JOB = 10_000
# This project's own limit for a delivery and for a generation, because inventories and file lists are read as a whole.
MAX_TABLE_FILES = 250_000


class Duplicates(StrEnum):
    """What to do about duplicate keys in an existing table that is taken over.

    KEEP_LATEST keeps one row per key, chosen by the rules for duplicate keys within a delivery.
    """

    REFUSE = "refuse"
    KEEP_LATEST = "keep_latest"


@dataclass(frozen=True)
class RequestedDelivery:
    """A delivery to apply, and the URI of its arrival record (its inventory)."""

    delivery: Delivery
    arrival_uri: str


@dataclass(frozen=True)
class ParentGeneration:
    """The committed generation that the new one builds on: URIs of its manifest, its file list and its data folder.

    If the parent has no files, target is exported first, and file list, digest and data folder are those of the
    export. For an SQL engine, which reads target itself, these three are empty.
    """

    generation: int
    manifest_uri: str
    file_list_uri: str
    file_list_digest: str
    data_uri: str


@dataclass(frozen=True)
class RequestedChanges:
    """Where the rows that differ from the parent's are written, and the UTC day on which the publish began."""

    uri: str
    publish_day: date


@dataclass(frozen=True)
class DedupRequest:
    """The dedup job's input.

    - retention_day, latest_day: the oldest and the newest date that rows may have.
    - deliveries: those to apply, in ascending precedence; folded: those that the parent includes; excluded: those
      rolled back.
    - seed_uri: the secret seed of the feed's fingerprints, which the job makes where it is absent. Requests of version
      0.1.0 do not name it; it then lies where later versions put it.
    - exact: compare the keys themselves (in mode last_changed also the values) instead of fingerprints and hashes.
    - compare_values: let plan ADOPT count changed rows, too.
    - file_bytes: the target size of files that the job writes. A small date has one smaller file.
    - dates: apply only these dates of the one delivery (by its date folders); None applies all.
    - since: by column path (`store.city` for a nested one), the first snapshot id whose files must have the column.
      Older ones may lack it, and their rows have NULL there.
    - form: how the statement of engine BIGQUERY chooses rows.
    - takes_over: for a bootstrap only, what to do about duplicate keys. The one delivery is then the export of an
      existing table, whose rows have their own update ids, and the manifest lists no delivery.
    - erasures: URIs of the records of earlier erasures, whose keys the new generation must not have.
    - erases: for an erasure only, the URI of the file of keys; there are then no deliveries.
    - changes: for engine CDC and for feeds with `changes: true`.

    Each run of the job writes its data files below a folder of its own in `data_uri` (`…/<run>/date=D/…`), and the rows
    that changed below one in `changes.uri`. Below `attempt_uri` it writes `runs/<run>.json` (JobRun),
    `files-<run>.json` and `changes-<run>.json` (FileList), `uris-<run>.txt` (a gs:// URI per line, for the load job),
    and last, only if it is absent, `candidate.json` (Candidate), which names the lists.
    """

    # Requests of earlier versions also name the format of the landed files, which is Parquet.
    FORMER_FIELDS: ClassVar[frozenset[str]] = frozenset({"source_format"})

    format_version: int
    feed: str
    generation: int
    attempt: str
    run_id: str
    code_version: str
    table: TableContract
    update_id_mode: UpdateIdMode
    engine: Engine
    date_folders: bool
    plan: Plan
    retention_day: date
    latest_day: date
    deliveries: tuple[RequestedDelivery, ...]
    folded: tuple[Delivery, ...]
    excluded: tuple[Delivery, ...]
    parent: ParentGeneration | None
    data_uri: str
    attempt_uri: str
    exact: bool = False
    compare_values: bool = True
    file_bytes: int = DEFAULT_FILE_BYTES
    dates: tuple[date, ...] | None = None
    takes_over: Duplicates | None = None
    seed_uri: str = ""
    since: dict[str, int] = field(default_factory=dict)
    form: SqlForm = SqlForm.QUALIFY
    erasures: tuple[str, ...] = ()
    erases: str = ""
    changes: RequestedChanges | None = None

    @property
    def fingerprint_seed_uri(self) -> str:
        """`seed_uri`, also for a request that lacks it."""
        return self.seed_uri or f"{self.attempt_uri.rsplit('/attempts/', 1)[0]}/fingerprint_seed"

    def included_with(self, applied: tuple[Delivery, ...]) -> tuple[Delivery, ...]:
        """The deliveries that the new generation includes. A replay of single dates adds none, nor does a takeover."""
        added = applied if self.dates is None and self.takes_over is None else ()
        return tuple(sorted({d.snapshot_id: d for d in (*self.folded, *added)}.values()))
