"""A table that is to become a feed's first generation: what it holds, and whether it can."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from dedup_clone.checks.partitions import partition_day
from dedup_clone.contract.errors import BootstrapRefused, ConfigurationError, ContractViolation
from dedup_clone.contract.records import to_json
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.existing_table_problems import row_problems, standing_problems, table_problems
from dedup_clone.publish.replayed_dates import retained
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.bigquery import Warehouse
from dedup_clone.warehouse.sql_files import TableNames

_NAME = re.compile(r"(?:(?P<dataset>[A-Za-z_][A-Za-z0-9_]*)\.)?(?P<table>[A-Za-z0-9_][A-Za-z0-9_-]*)")
_DATES_NAMED = 5


@dataclass(frozen=True)
class ExistingPartition:
    """One date of the table."""

    date: date
    rows: int


@dataclass(frozen=True)
class ExistingTable:
    """The table as it was when it was looked at. `version` changes with every change; `size` is logical bytes.

    `partitions` become the generation's; `expired` are older than `oldest` and are left out.
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


@dataclass(frozen=True)
class TakenOver:
    """What an attempt takes over, and on which terms; kept beside it. `compared_dates`: how many are compared whole."""

    existing: ExistingTable
    duplicates: Duplicates
    compared_dates: int


def keep_taken_over(services: Services, attempt: str, taken: TakenOver) -> None:
    services.store.put(services.layout.existing_table(attempt), to_json(taken))


def read_taken_over(services: Services, attempt: str) -> TakenOver:
    """Raises ContractViolation when the record is gone."""
    name = services.layout.existing_table(attempt)
    taken = services.store.read_record(TakenOver, name)
    if taken is None:
        raise ContractViolation(f"[{services.store.uri(name)}] is gone: clear the run from its first task.")
    return taken


def names_of(services: Services, existing: ExistingTable) -> TableNames:
    """For statements over the existing table: it stands where target does."""
    return TableNames(services.names.project, existing.dataset, services.feed.staging, existing.table)


def look_at_table(services: Services, source_table: str) -> ExistingTable:
    """The table `source_table` (`TABLE` or `DATASET.TABLE`; empty: target itself) as it is now. One metadata query.

    Raises BootstrapRefused with all that is in the way, ConfigurationError for a name that is none.
    """
    dataset, name = _parse(services, source_table)
    warehouse = services.warehouse.of_dataset(dataset)
    table, is_target = warehouse.table(name), (dataset, name) == (services.names.dataset, services.feed.target)
    where = f"{dataset}.{name}"
    if table is None:
        raise BootstrapRefused(
            f"Table [{where}] does not exist: name another, or land the first snapshot, whose publish creates target."
        )
    _refuse(where, standing_problems(services, where, is_target) + table_problems(services, table, is_target))
    observation = warehouse.observe(warehouse.table_names(services.feed.staging, name), name)
    oldest, latest = retained(services)
    _refuse(where, row_problems(services, observation, latest))
    found = sorted((day, p.rows) for p in observation.partitions if (day := partition_day(p)) and p.rows)
    kept = tuple(ExistingPartition(day, rows) for day, rows in found if day >= oldest)
    if not kept:
        raise BootstrapRefused(
            f"Table [{where}] has no row since [{oldest}], the oldest date that feed [{services.feed.feed}] keeps: "
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
        partitions=kept,
        expired=tuple(ExistingPartition(day, rows) for day, rows in found if day < oldest),
    )


def require_unchanged(services: Services, existing: ExistingTable) -> None:
    """Raises BootstrapRefused when somebody changed the table since it was looked at."""
    table = _of(services, existing).table(existing.table)
    if table is None or table.version != existing.version:
        what = "is gone" if table is None else "was changed"
        raise BootstrapRefused(
            f"Table [{existing.name}] {what} since it was looked at: its export may lack rows. The bootstrap changed "
            f"nothing. Stop whatever writes the table, and wait until partitions that expired at midnight UTC are "
            f"gone, then trigger the bootstrap again."
        )


def _of(services: Services, existing: ExistingTable) -> Warehouse:
    return services.warehouse.of_dataset(existing.dataset)


def _parse(services: Services, source_table: str) -> tuple[str, str]:
    match = _NAME.fullmatch(source_table or services.feed.target)
    if match is None:
        raise ConfigurationError(
            f"Source table [{source_table}] is no table's name, expected [TABLE] or [DATASET.TABLE] of project "
            f"[{services.names.project}]; copy a table of another project first (bq cp, free of charge)."
        )
    return match["dataset"] or services.names.dataset, match["table"]


def _refuse(where: str, problems: list[str]) -> None:
    if problems:
        raise BootstrapRefused(
            f"Table [{where}] cannot be taken over; nothing was changed:\n  - " + "\n  - ".join(problems)
        )


def say_partitions(partitions: tuple[ExistingPartition, ...]) -> str:
    """A few of them, with their rows."""
    named = ", ".join(f"{p.date}: {p.rows}" for p in partitions[:_DATES_NAMED])
    left = len(partitions) - _DATES_NAMED
    return f"{named} and {left} more dates" if left > 0 else named
