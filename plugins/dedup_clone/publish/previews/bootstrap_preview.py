"""Describes what a bootstrap would do, for the operator who approves it. Changes nothing and acquires no lease."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.option_checks import OR_REMOVE
from dedup_clone.contract.billing import GIB, TIB, USD_PER_TIB
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.attempt_jobs import find_step_job, query_configuration
from dedup_clone.publish.bootstrap.bootstrap_checks import evenly_spaced
from dedup_clone.publish.bootstrap.existing_table import (
    ExistingTable,
    describe_partitions,
    existing_table_names,
    read_existing_table,
)
from dedup_clone.publish.bootstrap.existing_table_problems import (
    undeclared_options,
    undeclared_policy_tags,
    undeclared_row_policies,
)
from dedup_clone.publish.bootstrap.resolve_bootstrap import BootstrapRequest, form_problems
from dedup_clone.publish.date_ranges import DATES_NAMED
from dedup_clone.publish.lease import require_own_feed
from dedup_clone.publish.partition_comparison import comparison_bytes
from dedup_clone.publish.services import Services
from dedup_clone.publish.waiting_deliveries import find_backlog
from dedup_clone.warehouse.metadata import TableMetadata

DUPLICATES_SQL_FILE = "bootstrap/duplicates.sql"


@dataclass(frozen=True)
class BootstrapPreview:
    """What a bootstrap would do. `text` is Markdown for the operator; the other fields are for programs.

    `exported_bytes`: the approximate logical bytes of the exported rows. `compared_bytes`: what the queries that
    compare some dates with staging would read. `count_bytes`: what the query that counts surplus rows reads.
    `surplus_rows`: how many rows there are beyond the first of each key; None if not counted, because `count_bytes`
    exceeds the limit. `refused`: what the operator has not accepted in the form, and duplicate keys that the form does
    not resolve; empty if the bootstrap can run.
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


def preview_bootstrap(
    services: Services, bootstrap_request: BootstrapRequest, count_limit_bytes: int
) -> BootstrapPreview:
    """Describe what the bootstrap would do. Duplicate keys are counted if that reads at most `count_limit_bytes`.

    Raises BootstrapRefused if the table does not fit the feed (what the form leaves open is in `refused`),
    ConfigurationError, FeedHeldElsewhere, JobFailed.
    """
    require_own_feed(services)
    existing = read_existing_table(services, bootstrap_request.source_table)
    days = evenly_spaced([p.date for p in existing.partitions], bootstrap_request.compared_dates)
    compared_bytes = comparison_bytes(
        services, existing_table_names(services, existing), services.feed.table.partition_column, days
    )
    duplicates = _DuplicateCount.count(services, existing, bootstrap_request.run_id, count_limit_bytes)
    refused = form_problems(existing, bootstrap_request)
    if duplicates.rows and bootstrap_request.duplicates is Duplicates.REFUSE:
        refused.append(
            f"Table [{existing.name}] has {duplicates}. List them with the query in docs/bootstrap.md and remove them, "
            f"or say with [duplicates] how they are resolved."
        )
    return BootstrapPreview(
        feed=services.feed.feed,
        table=existing.name,
        version=existing.version,
        rows=existing.rows,
        dates=len(existing.partitions),
        expired_rows=existing.expired_rows,
        exported_bytes=existing.retained_size,
        compared_bytes=compared_bytes,
        count_bytes=duplicates.bytes,
        surplus_rows=duplicates.rows,
        refused=tuple(refused),
        text=_text(services, existing, bootstrap_request, duplicates, days, compared_bytes, refused),
    )


@dataclass(frozen=True)
class _DuplicateCount:
    """The result of the query that counts surplus rows of equal keys. `bytes`: what the query reads.

    `rows`: the surplus rows; None if they were not counted. `named`: the dates with the most surplus rows, as text.
    """

    bytes: int
    rows: int | None
    named: str

    @classmethod
    def count(cls, services: Services, existing: ExistingTable, run_id: str, count_limit_bytes: int) -> _DuplicateCount:
        sql = services.warehouse.render(
            DUPLICATES_SQL_FILE, names=existing_table_names(services, existing), table=services.feed.table.to_contract()
        )
        parameters = {"retention_day": ("DATE", existing.oldest.isoformat())}
        configuration = query_configuration(services, "preview", sql, parameters)
        size = services.warehouse.jobs.dry_run_bytes(configuration)
        if size > count_limit_bytes:
            return cls(size, None, "")
        # The query changes nothing and needs no lease. A retried task finds the job by this name.
        name = hashlib.sha256(f"{run_id} {existing.version}".encode()).hexdigest()[:12]
        job = find_step_job(services, f"preview-{name}", "duplicates")
        if job.metadata is None:
            services.warehouse.jobs.start(job.job_id, configuration)
        services.warehouse.jobs.wait(job.job_id, poll_s=services.job_poll_s)
        found = list(services.warehouse.jobs.rows(job.job_id))
        named = [f"{r['found_day']}: {r['surplus_rows']}" for r in found[:DATES_NAMED]]
        more = [f"and {len(found) - DATES_NAMED} more dates"] if len(found) > DATES_NAMED else []
        return cls(size, sum(int(row["surplus_rows"]) for row in found), ", ".join([*named, *more]))

    def __str__(self) -> str:
        if self.rows is None:
            return f"not counted, because the query would read {_size(self.bytes)}"
        return (
            f"[{self.rows}] surplus rows of keys that occur more than once ({self.named})"
            if self.rows
            else "no key twice"
        )


def _text(
    services: Services,
    existing: ExistingTable,
    bootstrap_request: BootstrapRequest,
    duplicates: _DuplicateCount,
    days: list[date],
    compared_bytes: int,
    refused: list[str],
) -> str:
    names, feed = services.names, services.feed
    effect = "It serves readers until it is replaced by" if existing.is_target else "It stays as it is; readers get"
    waiting = [d.name for d in find_backlog(services, None).apply]
    expired = (
        f"{existing.expired_rows} rows before {existing.oldest} ({describe_partitions(existing.expired)})"
        if existing.expired
        else "none"
    )
    counted = (
        f"; {_size(duplicates.bytes)} ({duplicates.bytes / TIB * USD_PER_TIB:.2f} USD) for this count of duplicates"
        if duplicates.rows is not None
        else ""
    )
    resolution = {
        Duplicates.REFUSE: "duplicate keys end the run",
        Duplicates.KEEP_LATEST: f"of each key the row of the highest {feed.table.snapshot_id_column} stays",
    }[bootstrap_request.duplicates]
    lines = [
        f"**{feed.feed}: takes over {existing.name}**",
        "",
        f"- {existing.rows} rows in {len(existing.partitions)} dates, {existing.partitions[0].date} to "
        f"{existing.partitions[-1].date}. {effect} a clone of {names.staging_table} as {names.target_table}.",
        *_left_with_source(services, existing),
        f"- Left out, because the retention is {feed.table.retention_days} days: {expired}.",
        f"- Duplicates: {duplicates}; {resolution}. The Spark job reads every key, which scans nothing in BigQuery.",
        f"- Exported to state: about {_size(existing.retained_size)}, free. Read and written anew by Spark: as "
        f"much. Loaded into {names.staging_table}: as much, free.",
        f"- Billed: {_size(compared_bytes)} ({compared_bytes / TIB * USD_PER_TIB:.2f} USD on demand), to compare all "
        f"columns of {len(days)} dates ({', '.join(map(str, days[:DATES_NAMED])) or 'none'}) with staging{counted}; "
        f"and a few queries of metadata. No query is billed less than 10 MB.",
        "- Update ids stay as they are. The next delivery changes no row whose update id is higher than its own. "
        f"Waiting now: {', '.join(waiting) or 'none'}.",
        "- Nobody may write the table from now on until the swap: a change ends the run, and target stays as it is.",
    ]
    if refused:
        lines += ["", "**It would be refused:**", "", *(f"- {text}" for text in refused)]
    return "\n".join(lines)


def _left_with_source(services: Services, existing: ExistingTable) -> list[str]:
    """Lines about policies and options that the existing table has and target will lack.

    No line if the existing table is target: then such policies and options prevent the bootstrap.
    """
    table = services.warehouse.with_dataset(existing.dataset).table(existing.table)
    if existing.is_target or table is None:
        return []
    lines = _policies_left(services, existing, table)
    undeclared = undeclared_options(services, table)
    if undeclared.level is not Level.PASS:
        how = undeclared.next_step.removesuffix(OR_REMOVE)
        lines.append(f"- Not taken over: {undeclared.found}. To have it on target: {how}.")
    return lines


def _policies_left(services: Services, existing: ExistingTable, table: TableMetadata) -> list[str]:
    from google.api_core.exceptions import Forbidden

    how = "and make them on staging (docs/security.md, Row access policies and policy tags)"
    lines = []
    try:
        policies = undeclared_row_policies(services, existing.dataset, table)
    except Forbidden as error:
        policies = []
        lines.append(
            f"- **Not known: whether {existing.name} has row access policies.** Readers of target would see the rows "
            f"that they hide. Let the account of Airflow list them, or declare them in table.policies.row_access "
            f"{how}. BigQuery says: {error.message}"
        )
    if policies:
        lines.append(
            f"- **Not taken over: row access policies [{', '.join(policies)}].** Readers of target would see the rows "
            f"that they hide. Declare them in table.policies.row_access {how}."
        )
    tags = undeclared_policy_tags(services, table)
    if tags:
        lines.append(
            f"- **Not taken over: policy tags of columns [{', '.join(f'{path}: {tag}' for path, tag in tags.items())}]."
            f"** Readers of target would see these columns. Declare them in table.policies.column_tags (nested columns "
            f"cannot be declared there) {how}."
        )
    return lines


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB // 10 else f"{count} bytes"
