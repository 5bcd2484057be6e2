"""The attempt: the one record that says what a run does. The run's first task writes it; every later step reads it.

It is also the input of the dedup job. Apart from the seed, the job writes only below the folders that it names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.table import TableContract, UpdateIdMode


class Kind(StrEnum):
    """What an attempt does. A replay is a publish."""

    PUBLISH = "publish"
    ROLLBACK = "rollback"
    BOOTSTRAP = "bootstrap"
    REBUILD = "rebuild"
    ERASE = "erase"
    RETIRE = "retire"


class Swap(StrEnum):
    """How a publish replaces the rows of target: with a clone of staging, or by a second load of the same files."""

    CLONE = "clone"
    COPY = "copy"


class Plan(StrEnum):
    """How the job deduplicates a date (docs/how-it-works.md, the Spark job). AUTO selects a plan for each date."""

    AUTO = "auto"
    ADOPT = "adopt"
    REWRITE = "rewrite"
    WINDOW = "window"


# The default size of data files (256 MiB), efficient for BigQuery loads and for Spark.
DEFAULT_FILE_BYTES = 256 << 20
# BigQuery's limit of source URIs in the configuration of one job. A load job may instead name a file with a list of
# URIs; such a list may have ten million.
URIS_PER_JOB = 10_000
# This project's own limit for a delivery and for a generation, because inventories and file lists are read as a whole.
MAX_TABLE_FILES = 250_000


class Duplicates(StrEnum):
    """What a bootstrap or rebuild does about duplicate keys in the existing table.

    REFUSE: fail. KEEP_LATEST: retain one row per key, chosen by the rules for duplicate keys within a delivery.
    """

    REFUSE = "refuse"
    KEEP_LATEST = "keep_latest"


@dataclass(frozen=True)
class ParentFiles:
    """The rows of the parent: URIs of its manifest, its file list and its data folder.

    If the parent has no files, target is exported first; file list, digest and data folder are then those of the
    export, and the manifest lacks the dates that have expired in target. An SQL engine reads target itself; file list,
    digest and data folder are then empty.
    """

    manifest_uri: str
    file_list_uri: str = ""
    file_list_digest: str = ""
    data_uri: str = ""


@dataclass(frozen=True)
class Attempt:
    """What one run does under the lease: it makes `generation` on top of the committed generation `parent`.

    - id: names the attempt; its first digits are the generation.
    - parent: None before the first publish.
    - dag_id, run_id: the DAG run that acquired the lease.
    - reason: why a person started the run; empty for an arrival.
    - snapshot_id: the snapshot that page and status view name, as far as it is known before the dedup: the newest one
      to apply; the live one if only some `dates` are applied, and in an erasure or rebuild; in a rollback that of the
      restored generation; in a bootstrap 0.
    - taken_at: when the run acquired the lease.
    - is_replay: whether all deliveries were live before, or only some of their dates are applied.
    - accepted_checks: the checks before the swap whose failure the operator accepts.
    - restores, restored_at: only for a rollback, the generation to make live again, and the time as of which the swap
      clones staging; without that time the generation is loaded from its files.
    - date_folders: whether the landed files are in a folder for each date.
    - retention_day, latest_day: the oldest and the newest date that rows may have.
    - deliveries: the deliveries to apply, in ascending precedence.
    - arrivals_uri: the folder with the inventories of the deliveries (Arrival).
    - folded: the deliveries that the parent includes.
    - excluded: the deliveries that a rollback took out.
    - parent_files: the parent's rows, for the dedup; None without a parent, and in a rollback, bootstrap or rebuild.
    - seed_uri: the secret seed of the feed's fingerprints. The job creates the seed if it is absent.
    - exact: compare the keys themselves (in mode last_changed also the values) instead of sketches and hashes.
    - file_bytes: the target size of the files that the job writes. A small date has one smaller file.
    - dates: apply only these dates of the one delivery, which must have date folders; None applies all dates.
    - has_deleted: as in the parent's manifest (Manifest).
    - since: by column path (`store.city` for a nested column), the first snapshot id whose files must have the column.
      Files of older snapshots may lack the column; their rows then have NULL.
    - form: how the statement of engine BIGQUERY chooses rows.
    - takes_over: only for a bootstrap or rebuild, what to do about duplicate keys. The one delivery is then the export
      of an existing table, whose rows have their own update ids. The manifest does not list this delivery.
    - newest_snapshots: only for a rebuild, by date the `newest_snapshot` of the live generation (DateEntry).
    - erasures: URIs of the records of earlier erasures, whose keys the new generation must not have.
    - erases: only for an erasure, the URI of the file of keys to erase; `deliveries` is then empty.
    - changes_uri: the folder for the rows that differ from the parent's; empty unless the engine is CDC, or SPARK for a
      feed with `changes: true`.

    Each run of the job writes its data files below its own folder in `data_uri` (`…/<run>/date=D/…`), and the rows that
    differ from the parent's below its own folder in `changes_uri`. Below `folder_uri` the run writes (the named
    classes are in `contract/`):

    - `files-<run>.json` and `changes-<run>.json`: FileList.
    - `uris-<run>.txt`: one gs:// URI per line, for the load job.
    - `candidate.json`: Candidate, which names these lists; written last, and only if it is absent.
    """

    id: str
    feed: str
    kind: Kind
    generation: int
    parent: int | None
    dag_id: str
    run_id: str
    reason: str
    snapshot_id: int
    taken_at: datetime
    code_version: str
    engine: Engine
    table: TableContract
    update_id_mode: UpdateIdMode
    date_folders: bool
    plan: Plan
    retention_day: date
    latest_day: date
    arrivals_uri: str
    folder_uri: str
    data_uri: str
    seed_uri: str
    is_replay: bool = False
    accepted_checks: tuple[str, ...] = ()
    restores: int | None = None
    restored_at: datetime | None = None
    deliveries: tuple[Delivery, ...] = ()
    folded: tuple[Delivery, ...] = ()
    excluded: tuple[Delivery, ...] = ()
    parent_files: ParentFiles | None = None
    exact: bool = False
    file_bytes: int = DEFAULT_FILE_BYTES
    dates: tuple[date, ...] | None = None
    since: dict[str, int] = field(default_factory=dict)
    form: SqlForm = SqlForm.QUALIFY
    takes_over: Duplicates | None = None
    newest_snapshots: dict[date, int] = field(default_factory=dict)
    erasures: tuple[str, ...] = ()
    erases: str = ""
    changes_uri: str = ""
    has_deleted: bool = False

    @property
    def uri(self) -> str:
        """Where the attempt is stored: the dedup job's only argument."""
        return f"{self.folder_uri}attempt.json"

    def arrival_uri(self, delivery: Delivery) -> str:
        """Where the inventory of one of the deliveries is stored."""
        return f"{self.arrivals_uri}{delivery.name}.json"

    @property
    def landed_deliveries(self) -> tuple[Delivery, ...]:
        """The deliveries to apply; none if the one delivery is the export of a table."""
        return self.deliveries if self.takes_over is None else ()

    def included_deliveries(self, applied: tuple[Delivery, ...]) -> tuple[Delivery, ...]:
        """The deliveries that the new generation includes, the latest of each snapshot id.

        These are the parent's and those that the job `applied`. A replay of single dates, a bootstrap and a rebuild add
        none.
        """
        added = applied if self.dates is None and self.takes_over is None else ()
        return tuple(sorted({d.snapshot_id: d for d in (*self.folded, *added)}.values()))
