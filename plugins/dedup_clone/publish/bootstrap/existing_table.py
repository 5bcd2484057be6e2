"""Reads the table whose rows a bootstrap or rebuild takes over: its metadata, and what prevents the takeover."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from dedup_clone.checks.partition_checks import partition_day
from dedup_clone.contract.errors import BootstrapRefused, ConfigurationError, ContractViolation
from dedup_clone.contract.records import to_json
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.bootstrap.existing_table_problems import feed_problems, partition_problems, table_problems
from dedup_clone.publish.date_ranges import DATES_NAMED
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.sql_files import TableNames

_NAME = re.compile(r"(?:(?P<dataset>[A-Za-z_][A-Za-z0-9_]*)\.)?(?P<table>[A-Za-z0-9_][A-Za-z0-9_-]*)")


@dataclass(frozen=True)
class ExistingPartition:
    """One date of the table."""

    date: date
    rows: int


@dataclass(frozen=True)
class ExistingTable:
    """The table's metadata at one moment. `version` differs after every change; `size` is logical bytes.

    `is_target`: whether it is the feed's target. `partitions` will be published; the partitions in `expired` are before
    `oldest`, the first date within the retention, and will be left out. `latest` is the last date that a row may have.
    """

    dataset: str
    table: str
    is_target: bool
    version: str
    size: int
    oldest: date
    latest: date
    partitions: tuple[ExistingPartition, ...]
    expired: tuple[ExistingPartition, ...]

    @property
    def name(self) -> str:
        return f"{self.dataset}.{self.table}"

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)

    @property
    def expired_rows(self) -> int:
        return sum(partition.rows for partition in self.expired)

    @property
    def retained_size(self) -> int:
        """The approximate logical bytes of `partitions`: the table's size times their share of its rows."""
        return self.size * self.rows // (self.rows + self.expired_rows)


@dataclass(frozen=True)
class BootstrapRecord:
    """Which table's rows a bootstrap or rebuild takes over, and how; saved in the attempt's folder.

    `compared_dates`: on how many dates staging is compared with the existing table in all columns, before the swap.
    """

    existing: ExistingTable
    duplicates: Duplicates
    compared_dates: int


def save_bootstrap_record(services: Services, attempt: str, record: BootstrapRecord) -> None:
    services.store.put(services.layout.existing_table(attempt), to_json(record))


def read_bootstrap_record(services: Services, attempt: str) -> BootstrapRecord:
    """Return the attempt's record. Raises ContractViolation when it is gone."""
    name = services.layout.existing_table(attempt)
    record = services.store.read_record(BootstrapRecord, name)
    if record is None:
        raise ContractViolation(f"[{services.store.uri(name)}] is gone: clear the run from its first task.")
    return record


def existing_table_names(services: Services, existing: ExistingTable) -> TableNames:
    """Names for SQL statements that are to read the existing table in place of target."""
    return TableNames(services.names.project, existing.dataset, services.feed.staging, existing.table)


def read_existing_table(services: Services, source_table: str) -> ExistingTable:
    """Read the metadata of `source_table`: `TABLE`, `DATASET.TABLE`, or empty for target itself. One metadata query.

    Raises BootstrapRefused if the table does not exist or cannot be bootstrapped. The error names all problems of feed
    and metadata; if there are none, those of the partitions. Raises ConfigurationError for a malformed name.
    """
    dataset, name = _parse_name(services, source_table)
    warehouse = services.warehouse.with_dataset(dataset)
    table, is_target = warehouse.table(name), (dataset, name) == (services.names.dataset, services.feed.target)
    full_name = f"{dataset}.{name}"
    if table is None:
        raise BootstrapRefused(
            f"Table [{full_name}] does not exist: name another, or land the first snapshot, which creates target."
        )
    _raise_if_any(full_name, feed_problems(services, full_name, is_target) + table_problems(services, table, is_target))
    return observe_table(services, dataset, name, is_target=is_target)


def observe_table(services: Services, dataset: str, name: str, *, is_target: bool) -> ExistingTable:
    """Read the partitions of a table whose columns fit the feed. One metadata query.

    Raises BootstrapRefused if a row has no date, a date for which BigQuery has no partition, or a date after tomorrow,
    and if no row is within the retention.
    """
    warehouse, full_name = services.warehouse.with_dataset(dataset), f"{dataset}.{name}"
    observation = warehouse.observe(warehouse.table_names(services.feed.staging, name), name)
    oldest, latest = services.retention_window()
    _raise_if_any(full_name, partition_problems(services, observation, latest))
    dated = sorted((day, p.rows) for p in observation.partitions if (day := partition_day(p)) and p.rows)
    retained = tuple(ExistingPartition(day, rows) for day, rows in dated if day >= oldest)
    if not retained:
        raise BootstrapRefused(
            f"Table [{full_name}] has no row since [{oldest}], the oldest date that feed [{services.feed.feed}] keeps: "
            f"land the first snapshot instead (and drop the table, if it is target)."
        )
    return ExistingTable(
        dataset=dataset,
        table=name,
        is_target=is_target,
        version=observation.table.version,
        size=observation.table.size,
        oldest=oldest,
        latest=latest,
        partitions=retained,
        expired=tuple(ExistingPartition(day, rows) for day, rows in dated if day < oldest),
    )


def require_unchanged(services: Services, existing: ExistingTable) -> None:
    """Raise BootstrapRefused when somebody changed the table since its metadata was read."""
    table = services.warehouse.with_dataset(existing.dataset).table(existing.table)
    if table is None or table.version != existing.version:
        what = "is gone" if table is None else "was changed"
        raise BootstrapRefused(
            f"Table [{existing.name}] {what} since its metadata was read: its export may lack rows. Nothing "
            f"was changed. Stop whatever writes the table, and wait until partitions that expired at midnight UTC "
            f"are gone, then trigger the DAG again."
        )


def _parse_name(services: Services, source_table: str) -> tuple[str, str]:
    match = _NAME.fullmatch(source_table or services.feed.target)
    if match is None:
        raise ConfigurationError(
            f"Source table [{source_table}] is no table's name, expected [TABLE] or [DATASET.TABLE] of project "
            f"[{services.names.project}]; copy a table of another project first (bq cp, free of charge)."
        )
    return match["dataset"] or services.names.dataset, match["table"]


def _raise_if_any(full_name: str, problems: list[str]) -> None:
    if problems:
        raise BootstrapRefused(
            f"Table [{full_name}] cannot be taken over; nothing was changed:\n  - " + "\n  - ".join(problems)
        )


def describe_partitions(partitions: tuple[ExistingPartition, ...]) -> str:
    """Name the first DATES_NAMED partitions with their row counts."""
    named = ", ".join(f"{p.date}: {p.rows}" for p in partitions[:DATES_NAMED])
    left = len(partitions) - DATES_NAMED
    return f"{named} and {left} more dates" if left > 0 else named
