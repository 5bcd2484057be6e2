"""What a bootstrap would do, told before anybody approves it. Changes nothing and takes no lease."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.backlog import waiting
from dedup_clone.publish.bootstrap import BootstrapTrigger, refused_terms
from dedup_clone.publish.bootstrap_check import comparison, spread
from dedup_clone.publish.costs import TIB, USD_PER_TIB
from dedup_clone.publish.existing_table import ExistingTable, look_at_table, names_of, say_partitions
from dedup_clone.publish.jobs import find_step_job, query_configuration
from dedup_clone.publish.services import Services

STATEMENT = "bootstrap/duplicates.sql"
GIB = 1 << 30
DATES_NAMED = 5


@dataclass(frozen=True)
class BootstrapPreview:
    """`text` is Markdown for whoever approves; the rest is there for programs.

    `surplus_rows`: rows whose key another row has; None where they were not counted, because that would have read
    `count_bytes`, more than allowed. `refused`: why the run would end here, empty where it would go on.
    """

    feed: str
    table: str
    version: str
    rows: int
    dates: int
    expired_rows: int
    exported_bytes: int
    compared_bytes: int
    count_bytes: int
    surplus_rows: int | None
    refused: tuple[str, ...]
    text: str


def preview_bootstrap(services: Services, trigger: BootstrapTrigger, scan_limit_bytes: int) -> BootstrapPreview:
    """What the bootstrap would do. Doubled keys are counted by a query if that reads no more than `scan_limit_bytes`.

    Raises BootstrapRefused with all that is in the way, ConfigurationError, JobFailed.
    """
    existing = look_at_table(services, trigger.source_table)
    days = spread([p.date for p in existing.partitions], trigger.compared_dates)
    compared = sum(
        services.warehouse.jobs.bytes_of(comparison(services, names_of(services, existing), d)) for d in days
    )
    counted = _Duplicates.look(services, existing, trigger.run_id, scan_limit_bytes)
    refused = refused_terms(existing, trigger)
    if counted.rows and trigger.duplicates is Duplicates.REFUSE:
        refused.append(
            f"Table [{existing.name}] has {counted}. Remove them from the table, or say with [duplicates] how they are "
            f"resolved."
        )
    return BootstrapPreview(
        feed=services.feed.feed,
        table=existing.name,
        version=existing.version,
        rows=existing.rows,
        dates=len(existing.partitions),
        expired_rows=existing.expired_rows,
        exported_bytes=existing.size,
        compared_bytes=2 * compared,  # the table's partition, and staging's
        count_bytes=counted.bytes,
        surplus_rows=counted.rows,
        refused=tuple(refused),
        text=_text(services, existing, trigger, counted, days, 2 * compared, refused),
    )


@dataclass(frozen=True)
class _Duplicates:
    """`rows` too many, None where they were not counted; a few of their dates as text."""

    bytes: int
    rows: int | None
    named: str

    @classmethod
    def look(cls, services: Services, existing: ExistingTable, run_id: str, limit: int) -> _Duplicates:
        sql = services.warehouse.render(
            STATEMENT, names=names_of(services, existing), table=services.feed.table.to_contract()
        )
        parameters = {"retention_day": ("DATE", existing.oldest.isoformat())}
        configuration = query_configuration(services, "preview", sql, parameters)
        size = services.warehouse.jobs.bytes_of(configuration)
        if size > limit:
            return cls(size, None, "")
        # Nothing is written, so the job is nobody's who holds the lease; a retried task finds it by its name.
        name = hashlib.sha256(f"{run_id} {existing.version}".encode()).hexdigest()[:12]
        job = find_step_job(services, f"preview-{name}", "duplicates")
        if job.known is None:
            services.warehouse.jobs.start(job.job_id, configuration)
        services.warehouse.jobs.wait(job.job_id, poll_s=services.job_poll_s)
        found = list(services.warehouse.jobs.rows(job.job_id))
        named = [
            f"{r['found_day']}: {r['surplus_rows']}, such as {'; '.join(r['examples'])}" for r in found[:DATES_NAMED]
        ]
        return cls(size, sum(int(row["surplus_rows"]) for row in found), ". ".join(named))

    def __str__(self) -> str:
        if self.rows is None:
            return f"rows that were not compared: counting doubled keys would read {_size(self.bytes)}"
        return f"[{self.rows}] rows whose key another row has ({self.named})" if self.rows else "no key twice"


def _text(
    services: Services,
    existing: ExistingTable,
    trigger: BootstrapTrigger,
    counted: _Duplicates,
    days: list[date],
    compared: int,
    refused: list[str],
) -> str:
    names, feed = services.names, services.feed
    place = "It serves readers until it is replaced by" if existing.is_target else "It stays as it is; readers get"
    held = [d.name for d in waiting(services, None).apply]
    expired = (
        f"{existing.expired_rows} rows before {existing.oldest} ({say_partitions(existing.expired)})"
        if existing.expired
        else "none"
    )
    resolved = {
        Duplicates.REFUSE: "doubled keys end the run, which names them",
        Duplicates.KEEP_LATEST: f"of each key the row of the highest {feed.table.snapshot_id_column} stays",
    }[trigger.duplicates]
    lines = [
        f"**{feed.feed}: takes over {existing.name}**",
        "",
        f"- {existing.rows} rows in {len(existing.partitions)} dates, {existing.partitions[0].date} to "
        f"{existing.partitions[-1].date}. {place} a clone of {names.staging_table} as {names.target_table}.",
        f"- Left out, for the retention is {feed.table.retention_days} days: {expired}.",
        f"- Duplicates: {counted}; {resolved}. The Spark job looks at every key, which scans nothing in BigQuery.",
        f"- Exported to state: about {_size(existing.size)}, free. Read and written anew by Spark: as much. Loaded "
        f"into {names.staging_table}: as much, free.",
        f"- Billed: {_size(compared)} ({compared / TIB * USD_PER_TIB:.2f} USD on demand), to compare all columns of "
        f"{len(days)} dates ({', '.join(map(str, days[:DATES_NAMED])) or 'none'}) with staging; and a few queries of "
        f"metadata. No query is billed less than 10 MB.",
        "- Update ids stay as they are. The next delivery builds on them, one older than a row changes nothing of it. "
        f"Waiting now: {', '.join(held) or 'none'}.",
        "- Nobody may write the table from now on until the swap: a change ends the run, and target stays as it is.",
    ]
    if refused:
        lines += ["", "**It would be refused:**", "", *(f"- {text}" for text in refused)]
    return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB // 10 else f"{count} bytes"
