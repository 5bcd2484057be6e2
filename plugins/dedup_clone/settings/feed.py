"""The models and the reader of feed files: landing, table, engine, checks, freshness SLA and content audit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import time
from pathlib import Path
from typing import Annotated, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, PrivateAttr

from dedup_clone.contract.attempt import Plan, Swap
from dedup_clone.contract.costs import GIB, MIN_BYTES_BILLED, TIB
from dedup_clone.contract.engine import Engine, SqlForm, unsupported_reason
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import FIXED_COLUMNS, PartitionBy, UpdateIdMode
from dedup_clone.settings.check_settings import UNIQUE_ACROSS_DATES, CheckSettings, SqlCheck
from dedup_clone.settings.spark_settings import Runner, SparkSize
from dedup_clone.settings.strict_yaml import (
    RESERVED_SUFFIXES,
    FeedName,
    ObjectPrefix,
    StrictModel,
    read_model,
    read_text,
)
from dedup_clone.settings.table_settings import TableSettings

ClockTime = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class ExpectedArrivals(StrictModel):
    """The times of the day at which a snapshot is due."""

    times: Annotated[tuple[ClockTime, ...], Field(min_length=1)] = Field(examples=[["06:00", "18:00"]])
    """Each as `HH:MM`."""
    zone: str = Field(default="UTC", examples=["Europe/Berlin"])
    """IANA time zone of `times`."""
    grace_minutes: Annotated[int, Field(ge=0, le=24 * 60)] = Field(default=30, examples=[60])
    """How late a snapshot may arrive."""

    def problems(self) -> Iterator[str]:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            yield f"zone [{self.zone}] is no IANA time zone such as [Europe/Berlin]"
        if len(set(self.times)) != len(self.times):
            yield f"a time is named twice: {list(self.times)}"

    @property
    def clock_times(self) -> tuple[time, ...]:
        """The due times in `zone`, earliest first."""
        return tuple(sorted(time.fromisoformat(text) for text in self.times))


class FreshnessSettings(StrictModel):
    """How fresh the feed has to be (docs/operate.md)."""

    sla_minutes: Annotated[int, Field(ge=1, le=24 * 60)] = Field(default=60, examples=[120])
    """Longest time from arrival to swap."""
    expected_arrivals: ExpectedArrivals | None = None
    """Alert when a snapshot is overdue (null: never)."""
    max_age_minutes: Annotated[int, Field(ge=1)] | None = Field(default=None, examples=[480])
    """Alert when the live snapshot arrived longer ago (null: never)."""


class LandingSettings(StrictModel):
    """Landed files are `<prefix>/snapshot_id=N/[<partition column>=D/]*.parquet`; the marker is written last."""

    prefix: ObjectPrefix = Field(examples=["shop/orders"])
    """Folder of the feed in the landing bucket."""
    marker: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = Field(default="_SUCCESS", examples=["_DONE"])
    """The empty object that the producer writes last."""
    date_folders: bool = Field(default=True, examples=[False])
    """Whether each date has a folder `<partition column>=YYYY-MM-DD`, or `date=YYYY-MM-DD` if the column is a time."""


class DedupSettings(StrictModel):
    """How the Spark job compares."""

    removed_keys: ClassVar[dict[str, str]] = {
        "compare_values": "changed rows are always counted.",
        "file_megabytes": "Files have 256 MiB; they are larger if one load job could not take so many.",
    }

    plan: Plan = Field(default=Plan.AUTO, examples=["rewrite"])
    """How each date is written (docs/how-it-works.md, the Spark job)."""
    exact: bool = Field(default=False, examples=[True])
    """Compare keys (in mode `last_changed` also values) themselves, not by sketches (docs/adr/0005-adopt.md)."""


class PublishSettings(StrictModel):
    """How a checked generation goes live."""

    swap: Swap = Field(default=Swap.CLONE, examples=["copy"])
    """`clone`: target becomes a clone of staging. `copy`: target stays, with its views (docs/adr/0018-copy.md)."""


class CdcSettings(StrictModel):
    """How engine `cdc` streams the new and changed rows."""

    removed_keys: ClassVar[dict[str, str]] = {
        "publish": "engine cdc streams into staging, and the swap publishes all rows at once.",
    }
    max_changed_share: Annotated[float, Field(gt=0, le=1)] = Field(default=0.02, examples=[0.05])
    """If a larger share of the rows is new or changed, a free load job fills staging instead."""
    max_staleness_minutes: Annotated[int, Field(ge=1, le=24 * 60)] = Field(default=15, examples=[30])
    """When BigQuery has applied streamed rows; Google advises twice an apply job's duration plus seven minutes."""


class ContentAuditSettings(StrictModel):
    """Each day, some partitions of target are compared with the published files."""

    enabled: bool = Field(default=True, examples=[False])
    """Whether the daily audit includes the feed."""
    partitions_per_day: Annotated[int, Field(ge=1, le=100)] = Field(default=1, examples=[4])
    """Partitions compared each day."""
    bytes_per_day: Annotated[int, Field(ge=MIN_BYTES_BILLED)] = Field(default=64 * GIB, examples=[256 * GIB])
    """Most bytes billed for it in one UTC day."""


class Feed(StrictModel):
    """One feed file."""

    removed_keys: ClassVar[dict[str, str]] = {
        "full_size_gb": "the page shows what each publish cost, and docs/costs-and-limits.md what 15 TB cost.",
    }

    feed: FeedName = Field(examples=["orders"])
    """Name of the feed, its file and its table; its DAGs are `<feed>_watch`, …"""
    description: str = Field(examples=["One row for each order and day."])
    """What one row is; shown on the page and in Airflow."""
    owner: str = Field(examples=["data-platform"])
    """Owner of the DAGs."""
    landing: LandingSettings
    """Where snapshots arrive."""
    table: TableSettings
    """The table and the roles of its columns."""
    update_id_mode: UpdateIdMode = Field(default=UpdateIdMode.LAST_SEEN, examples=["last_changed"])
    """A row has the id of the newest snapshot that contains it (`last_seen`), or of the one that last changed it."""
    engine: Engine = Field(default=Engine.SPARK, examples=["bigquery"])
    """What deduplicates (docs/feeds.md, choose an engine)."""
    form: SqlForm = Field(default=SqlForm.QUALIFY, examples=["group_by"])
    """The SELECT of engine `bigquery`. All forms read the same bytes; `group_by` takes about twice the slots."""
    cdc: CdcSettings = CdcSettings()
    """How engine `cdc` streams rows."""
    max_bytes_billed: Annotated[int, Field(ge=MIN_BYTES_BILLED)] = Field(default=TIB, examples=[64 * GIB])
    """Most bytes billed for a query of an engine in SQL or `checks.unique_across_dates`. A larger one is refused."""
    runner: Runner | None = Field(default=None, examples=["cluster"])
    """Where Spark runs (null: the profile's runner)."""
    spark: SparkSize = SparkSize()
    """Size of the Spark job."""
    dedup: DedupSettings = DedupSettings()
    """How the Spark job compares."""
    publish: PublishSettings = PublishSettings()
    """How a checked generation goes live."""
    checks: CheckSettings = CheckSettings()
    """What stops a publish before readers see it."""
    freshness: FreshnessSettings = FreshnessSettings()
    """The freshness SLA."""
    changes: bool = Field(default=False, examples=[True])
    """Whether each publish writes what it changed to `FEED_changes` (docs/read-the-table.md)."""
    changes_days: Annotated[int, Field(ge=1, le=3652)] = Field(default=60, examples=[14])
    """How long `FEED_changes` keeps them."""
    content_audit: ContentAuditSettings = ContentAuditSettings()
    """Comparison with the published files."""

    _queries: dict[str, str] = PrivateAttr(default_factory=dict)

    def problems(self) -> Iterator[str]:
        table, unique = self.table, self.checks.unique_across_dates
        tables = {f"{self.target}{suffix}".lower() for suffix in ("", *RESERVED_SUFFIXES)}
        taken = [column.name for column in table.columns if column.name.lower() in tables]
        if taken:
            yield (
                f"columns {taken} have the name of the table: BigQuery would read them as a whole row in queries; "
                f"rename the column or the feed"
            )
        if unsupported := self.unsupported_reason(self.engine):
            yield unsupported
        if table.keep_previous and self.publish.swap is Swap.COPY:
            yield (
                f"table.keep_previous keeps the table that a swap replaces, and [publish.swap] is [{Swap.COPY}], which "
                f"replaces none: use swap [{Swap.CLONE}], or remove keep_previous"
            )
        if self.changes:
            yield from self._problems_of_changes()
        others = {*table.keys} - {table.partition_column}
        if not others.issuperset(unique) or len({*unique}) != len(unique):
            yield (
                f"checks.unique_across_dates is {list(unique)}, expected some of the keys without the date, each once: "
                f"{sorted(others)}"
            )

    def _problems_of_changes(self) -> Iterator[str]:
        policies = self.table.policies
        if not self.engine.runs_spark:
            yield (
                f"[changes] is true, but engine [{self.engine}] does not find out which rows changed: use engine "
                f"[{Engine.SPARK}], or remove [changes]"
            )
        if policies.row_access or policies.column_tags:
            yield (
                f"[changes] is true, but [{self.target}_changes] would not have the policies that the feed declares, "
                f"and show what they hide: remove [changes]"
            )
        taken = [key for key in self.table.keys if key.lower() in FIXED_COLUMNS]
        if taken:
            yield (
                f"[changes] is true, but keys {taken} are named like columns of [{self.target}_changes]: rename them, "
                f"or remove [changes]"
            )

    def unsupported_reason(self, engine: Engine) -> str | None:
        """Why `engine` cannot deduplicate this feed, and what to do about it; None if `engine` can."""
        policies, since = self.table.policies, self.table.since()
        if self.publish.swap is Swap.COPY and not engine.runs_spark:
            return (
                f"[publish.swap] is [{Swap.COPY}], which loads target from the generation's files, and engine "
                f"[{engine}] writes none: use engine [{Engine.SPARK}], or swap [{Swap.CLONE}]"
            )
        if engine is not Engine.SPARK and self.table.partition_by is PartitionBy.MONTH:
            return f"engine [{engine}] is not tried with partition_by [month]: use engine [{Engine.SPARK}]"
        if not engine.runs_spark and since:
            return (
                f"engine [{engine}] reads landed files as they are, and files may lack {list(since)} ([since]): use "
                f"engine [{Engine.SPARK}], or remove [since] when no such snapshot can come any more"
            )
        if engine is Engine.CDC and (policies.row_access or policies.column_tags):
            return (
                f"engine [{engine}] streams rows into staging, which row access policies and policy tags restrict: "
                f"use engine [{Engine.SPARK}]"
            )
        if engine is not Engine.SPARK and (policies.row_access or policies.column_tags):
            return (
                f"engine [{engine}] loads deliveries into a table without the policies that the feed declares, where "
                f"every reader of the dataset would see them: use engine [{Engine.SPARK}]"
            )
        return unsupported_reason(engine, self.table.to_contract(), self.update_id_mode)

    @property
    def target(self) -> str:
        return self.feed

    @property
    def staging(self) -> str:
        return f"{self.feed}_staging"

    @property
    def sql_checks(self) -> tuple[SqlCheck, ...]:
        """`checks.sql`, and the query for `checks.unique_across_dates` if that names columns."""
        if not self.checks.unique_across_dates:
            return self.checks.sql
        return (*self.checks.sql, SqlCheck(name=UNIQUE_ACROSS_DATES, max_bytes_billed=self.max_bytes_billed))

    def query_of(self, check: SqlCheck) -> str:
        """The SQL of the check's file. Call `read_queries` first."""
        return self._queries[check.name]

    def read_queries(self, folder: Path) -> None:
        """Read the SQL files of `checks.sql` from `folder`/<feed>. Raises ConfigurationError if one cannot be read."""
        for check in self.checks.sql:
            path = folder / self.feed / f"{check.name}.sql"
            if not path.is_file():
                raise ConfigurationError(f"Check [{check.name}] of feed [{self.feed}] has no file [{path}]: add it.")
            self._queries[check.name] = read_text(path)


def read_feed(path: Path) -> Feed:
    """The feed in the file, with its SQL checks. The file's name must be `<feed>.yaml`. Raises ConfigurationError."""
    feed = read_model(Feed, path)
    if feed.feed != path.stem:
        raise ConfigurationError(
            f"{path}:1: feed is [{feed.feed}], expected [{path.stem}] as the file is named: rename one of the two."
        )
    feed.read_queries(path.parent)
    return feed
