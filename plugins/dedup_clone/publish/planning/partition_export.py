"""Exports partitions of a table to Parquet files in state, with extract jobs, which are free.

The jobs are not recorded in CURRENT: a recovery waits for recorded jobs because they change staging or target, and
exports change neither. A retried step computes the same job ids and reuses the jobs that succeeded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.publish.attempt_jobs import find_step_job, job_labels
from dedup_clone.publish.services import Services
from dedup_clone.state.parquet_footers import read_footers
from dedup_clone.state.store import ObjectInfo

PARALLEL_JOBS = 16  # extract jobs that run at a time


@dataclass(frozen=True)
class ExportedFile:
    """One exported file: its object, the date of its folder, and its rows."""

    info: ObjectInfo
    date: date
    rows: int


def export_folder(services: Services, attempt: str) -> str:
    """Return `feed/data/<attempt>-export/`. It is pruned like a data folder of the attempt's generation."""
    return f"{services.layout.data_folder(attempt).rstrip('/')}-export/"


def export_partitions(
    services: Services, attempt: str, table: Mapping[str, str], dates: Iterable[date], *, partition_column: str
) -> list[ExportedFile]:
    """Export `dates` of `table` (as the REST API names it) to `<export folder><partition column>=<date>/`.

    Returns the files ordered by name. Raises JobFailed, OutcomeUnknown as `find_step_job` does, and ContractViolation
    when a file cannot be read. The table has no column of type FLOAT64.
    """
    folder = export_folder(services, attempt)

    def export(day: date) -> None:
        job = find_step_job(services, attempt, f"export_{day:%Y%m%d}")
        if job.metadata is None:
            extract = {
                "sourceTable": {**table, "tableId": f"{table['tableId']}${day:%Y%m%d}"},
                "destinationUris": [services.store.uri(f"{folder}{partition_column}={day}/part-*.parquet")],
                "destinationFormat": "PARQUET",
                "compression": "ZSTD",
            }
            services.warehouse.jobs.start(job.job_id, {"extract": extract, "labels": job_labels(services, "export")})
        services.warehouse.jobs.wait(job.job_id, poll_s=services.job_poll_s)

    with ThreadPoolExecutor(PARALLEL_JOBS) as pool:
        list(pool.map(export, dates))
    objects = sorted((o for o in services.store.objects(folder) if o.size), key=lambda o: o.name)
    footers = read_footers(services.store, [o.name for o in objects])
    broken = [footer for footer in footers if footer.problem]
    if broken:
        raise ContractViolation(
            f"Exported file [{services.store.uri(broken[0].name)}] cannot be read: {broken[0].problem}; "
            f"clear the run from its first task."
        )
    return [
        ExportedFile(info, _folder_date(info.name.removeprefix(folder)), footer.rows)
        for info, footer in zip(objects, footers, strict=True)
    ]


def wrong_row_counts(files: Iterable[ExportedFile], expected: Mapping[date, int]) -> list[str]:
    """One text for each date of `expected` (its rows by date) whose files have another number of rows."""
    rows: Counter[date] = Counter()
    for file in files:
        rows[file.date] += file.rows
    return [f"{day}: {rows[day]} rows, expected {count}" for day, count in expected.items() if rows[day] != count]


def _folder_date(path: str) -> date:
    """Return 2026-01-31 for `date=2026-01-31/part-0.parquet`."""
    return date.fromisoformat(path.split("/")[0].partition("=")[2])
