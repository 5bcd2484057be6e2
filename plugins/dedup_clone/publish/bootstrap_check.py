"""What a bootstrap judges besides: does staging hold what the existing table holds, and is that as it was?"""

from __future__ import annotations

from datetime import date
from typing import Any

from dedup_clone.checks.verdicts import Verdict, verdict
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.existing_table import ExistingTable, TakenOver, names_of
from dedup_clone.publish.jobs import query_configuration, run_step_job
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import PartitionFingerprint
from dedup_clone.warehouse.sql_files import TableNames

# Rows as canonical texts, hashed and added up: equal for equal rows in any order.
STATEMENT = "checks/content_audit.sql"


def judge_existing(services: Services, attempt: str, taken: TakenOver, manifest: Manifest) -> list[Verdict]:
    """Every partition's rows, and the contents of some. `attempt` has loaded staging."""
    return [
        _rows_equal(taken.existing, manifest),
        _contents_equal(services, attempt, taken, manifest),
        _unchanged(services, taken.existing),
    ]


def comparison(services: Services, names: TableNames, day: date) -> dict[str, Any]:
    """The query that fingerprints one partition of the table that stands as target in `names`."""
    sql = services.warehouse.render(STATEMENT, names=names, table=services.feed.table.to_contract())
    return query_configuration(services, "compare", sql, {"audited_date": ("DATE", day.isoformat())})


def spread(days: list[date], count: int) -> list[date]:
    """So many of the days, the first and the last among them, at even distances."""
    if count >= len(days) or count < 1:
        return days if count else []
    return [days[round(place * (len(days) - 1) / max(count - 1, 1))] for place in range(count)]


def _rows_equal(existing: ExistingTable, manifest: Manifest) -> Verdict:
    expected = {partition.date: partition.rows for partition in existing.partitions}
    found = {entry.date: entry.rows + entry.ties for entry in manifest.dates}
    wrong = [day for day in sorted({*expected, *found}) if expected.get(day) != found.get(day)]
    named = "; ".join(f"{day}: {found.get(day, 0)} rows, expected {expected.get(day, 0)}" for day in wrong[:5])
    surplus = sum(entry.ties for entry in manifest.dates)
    return verdict(
        "existing_rows",
        not wrong,
        found=named or f"equal{f'; {surplus} rows with the key of another were left out' if surplus else ''}",
        expected=f"{existing.rows} rows in {len(expected)} dates as in {existing.name}",
        next_step="clear the run from its first task, which exports the table anew.",
    )


def _contents_equal(services: Services, attempt: str, taken: TakenOver, manifest: Manifest) -> Verdict:
    unique = [entry.date for entry in manifest.dates if not entry.ties]
    days = spread(unique, taken.compared_dates)
    of_staging = TableNames(
        services.names.project, services.names.dataset, services.feed.staging, services.feed.staging
    )
    of_existing, wrong = names_of(services, taken.existing), []
    for day in days:
        then = _fingerprint(services, attempt, f"compare_{day:%Y%m%d}_existing", of_existing, day)
        now = _fingerprint(services, attempt, f"compare_{day:%Y%m%d}_staging", of_staging, day)
        if then != now:
            wrong.append(f"{day}: {now}, expected {then}")
    return verdict(
        "existing_contents",
        not wrong,
        found="; ".join(wrong[:3]) or f"equal on {len(days)} dates: {', '.join(map(str, days[:5])) or 'none compared'}",
        expected=f"staging has the rows of {taken.existing.name}",
        next_step="the table was changed, or its export differs: clear the run from its first task, and report it.",
    )


def _fingerprint(services: Services, attempt: str, step: str, names: TableNames, day: date) -> PartitionFingerprint:
    job = run_step_job(services, attempt, step, comparison(services, names, day))
    (row,) = services.warehouse.jobs.rows(job.job_id)
    return PartitionFingerprint(int(row["row_count"]), int(row["exclusive_or"]), int(row["total"]))


def _unchanged(services: Services, existing: ExistingTable) -> Verdict:
    table = services.warehouse.of_dataset(existing.dataset).table(existing.table)
    version = "gone" if table is None else table.version
    return verdict(
        "existing_unchanged",
        version == existing.version,
        found=version,
        expected=existing.version,
        next_step=f"stop whatever writes {existing.name}, then trigger the bootstrap again.",
    )
