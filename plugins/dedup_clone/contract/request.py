"""What the dedup job is asked to do. One request is one attempt; every name in it is the attempt's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.table import TableContract, UpdateIdMode


class Plan(StrEnum):
    """How the job deduplicates. AUTO takes ADOPT where it applies and REWRITE elsewhere, date by date."""

    AUTO = "auto"
    ADOPT = "adopt"
    REWRITE = "rewrite"
    WINDOW = "window"
    ANTIJOIN = "antijoin"


# BigQuery loads and Spark reads files of this size well.
USUAL_FILE_BYTES = 256 << 20
# BigQuery: source URIs of one load job. A generation of more files could not be loaded whole.
FILES_PER_JOB = 10_000


class Duplicates(StrEnum):
    """What becomes of keys that an existing table holds more than once, when it is taken over.

    KEEP_LATEST: of each the row that comes first by the rules for rows of one delivery stays.
    """

    REFUSE = "refuse"
    KEEP_LATEST = "keep_latest"


class SourceFormat(StrEnum):
    PARQUET = "parquet"


@dataclass(frozen=True)
class RequestedDelivery:
    """A delivery to apply and where its arrival record (the frozen inventory) lies."""

    delivery: Delivery
    arrival_uri: str


@dataclass(frozen=True)
class ParentGeneration:
    """The committed generation that the new one builds on: URIs of its header, its file list and its data folder.

    The digest is the file list's. All three but the header differ from the header's own where the parent's files were
    gone and target was exported; they are empty for an engine in SQL, which reads target itself.
    """

    generation: int
    manifest_uri: str
    file_list_uri: str
    file_list_digest: str
    data_uri: str


@dataclass(frozen=True)
class DedupRequest:
    """`deliveries` in ascending precedence. `retention_day` is the oldest date kept, `latest_day` the newest allowed.
    `exact`: no plan trusts a fingerprint or a hash: all keys, and in mode last_changed all values, are compared
    themselves. `compare_values`: plan ADOPT counts changed rows, too. `file_bytes` is the size that files written by
    the job should have; small dates have one smaller file.
    `dates`: of the one delivery that is named only these, by its date folders, are applied; None: all that it has.
    `takes_over`: the one delivery that is named is no snapshot but an existing table's export, whose rows have update
    ids of their own; the manifest names no delivery then. None: an ordinary request.

    The job writes data files below `data_uri` (`…/date=D/…`) and below `attempt_uri`, with a suffix that is unique to
    this run of the job, `files-<suffix>.json` (FileList) and `uris-<suffix>.txt` (one gs:// URI a line, for the load
    job); last, and only if absent, `candidate.json` (Candidate), which names the two.
    """

    format_version: int
    feed: str
    generation: int
    attempt: str
    run_id: str
    code_version: str
    table: TableContract
    update_id_mode: UpdateIdMode
    engine: Engine
    source_format: SourceFormat
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
    file_bytes: int = USUAL_FILE_BYTES
    dates: tuple[date, ...] | None = None
    takes_over: Duplicates | None = None

    def folded_with(self, applied: tuple[Delivery, ...]) -> tuple[Delivery, ...]:
        """The deliveries that are in once `applied` are; one of which only some dates were taken is still to come."""
        whole = applied if self.dates is None and self.takes_over is None else ()
        return tuple(sorted({d.snapshot_id: d for d in (*self.folded, *whole)}.values()))
