"""The table whose rows a bootstrap or rebuild takes over: its record, and how staging is compared with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import partial

from dedup_clone.checks.check_result import CheckResult, make_result
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import BootstrapRefused, ContractViolation
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.publish.attempt_jobs import run_step_job
from dedup_clone.publish.declared_form import set_clustering_of_target
from dedup_clone.publish.partition_comparison import compare_with_table, read_comparison
from dedup_clone.publish.services import Services


@dataclass(frozen=True)
class ExistingTable:
    """The table's metadata at one moment; saved in the attempt's folder. `version` differs after every change.

    `table`: target, or a copy of it. `size`: logical bytes. `partitions`: the rows of each date that will be published;
    the dates in `expired` are before `oldest`, the first date within the retention, and will be left out.
    """

    table: str
    version: str
    size: int
    oldest: date
    partitions: dict[date, int]
    expired: dict[date, int]

    @property
    def rows(self) -> int:
        return sum(self.partitions.values())


def save_existing_table(services: Services, attempt: str, existing: ExistingTable) -> None:
    services.store.put(services.layout.existing_table(attempt), to_json(existing))


def read_existing_table(services: Services, attempt: str) -> ExistingTable:
    """The table whose rows the attempt takes over. Raises ContractViolation when the record is gone."""
    name = services.layout.existing_table(attempt)
    existing = services.store.read_record(ExistingTable, name)
    if existing is None:
        raise ContractViolation(f"[{services.store.uri(name)}] is gone: clear the run from its first task.")
    return existing


def require_unchanged(services: Services, existing: ExistingTable) -> None:
    """Raise BootstrapRefused when somebody changed the table since its metadata was read."""
    table = services.warehouse.table(existing.table)
    if table is None or table.version != existing.version:
        raise BootstrapRefused(
            f"Table [{existing.table}] was changed, or is gone, since its metadata was read: its export may lack rows. "
            f"Nothing was changed by this run. Stop whatever writes the table, and wait until partitions that expired "
            f"at midnight UTC are gone, then trigger the DAG again."
        )


def prepare_swap_of_takeover(services: Services, attempt: Attempt) -> None:
    """Right before the swap, check that nobody changed the exported table, and give target the declared clustering.

    Raises BootstrapRefused. Safe to repeat.
    """
    existing, table = read_existing_table(services, attempt.id), services.feed.table.to_contract()
    target = services.warehouse.table(services.feed.target)
    live = None if attempt.parent is None else services.manifests.read(attempt.parent)
    is_clustered = live and target and target.cluster_by == table.cluster_by != live.table.cluster_by
    # If target has the declared clustering and not the live generation's, an earlier try of this task set it. That
    # changed the table's version.
    if not (existing.table == services.feed.target and is_clustered):
        require_unchanged(services, existing)
    if target is not None:
        set_clustering_of_target(services, attempt.id, target, table)


def check_existing_table(services: Services, attempt: str, manifest: Manifest) -> list[CheckResult]:
    """Compare the rows of all partitions with the manifest, and all columns of some partitions with staging.

    Raises what `run_step_job` raises.
    """
    existing = read_existing_table(services, attempt)
    return [_rows_equal(existing, manifest), _contents_equal(services, attempt, existing, manifest)]


def dates_to_compare(days: list[date]) -> list[date]:
    """Of these days, those on which staging is compared in all columns: the first, the middle and the last."""
    return sorted({days[0], days[len(days) // 2], days[-1]}) if days else []


def _rows_equal(existing: ExistingTable, manifest: Manifest) -> CheckResult:
    expected = existing.partitions
    found = {entry.date: entry.rows + entry.ties for entry in manifest.dates_with_rows}
    wrong = [day for day in sorted({*expected, *found}) if expected.get(day) != found.get(day)]
    named = "; ".join(f"{day}: {found.get(day, 0)} rows, expected {expected.get(day, 0)}" for day in wrong[:5])
    surplus = sum(entry.ties for entry in manifest.dates)
    return make_result(
        "existing_rows",
        not wrong,
        found=named or f"equal{f'; {surplus} rows with a repeated key were left out' if surplus else ''}",
        expected=f"{existing.rows} rows in {len(expected)} dates as in {existing.table}",
        next_step="clear the run from its first task, which exports the table anew.",
    )


def _contents_equal(services: Services, attempt: str, existing: ExistingTable, manifest: Manifest) -> CheckResult:
    without_duplicates = [entry.date for entry in manifest.dates_with_rows if not entry.ties]
    days = dates_to_compare(without_duplicates)
    # The query reads the target table of the names that it is given, so these names have staging as target.
    names = services.warehouse.table_names(services.feed.staging, services.feed.staging)
    expected, wrong = services.warehouse.table_names(services.feed.staging, existing.table).target, []
    for day in days:
        compare = partial(compare_with_table, services, names, day, expected)
        job = run_step_job(services, attempt, f"compare_{day:%Y%m%d}", compare)
        comparison = read_comparison(services, job.job_id)
        if not comparison.is_equal:
            wrong.append(f"{day}: {comparison.difference}")
    return make_result(
        "existing_contents",
        not wrong,
        found="; ".join(wrong[:3]) or f"equal on {len(days)} dates: {', '.join(map(str, days[:5])) or 'none compared'}",
        expected=f"staging has the rows of {existing.table}",
        next_step=(
            "clear the run from its first task. If the check fails again although nobody changed the table, report it "
            "as a bug of this project."
        ),
    )
