"""Check task: waits for streaming buffers, and runs the checks before the swap.

CHECKS says which checks run for which kind of attempt. The checks after the swap (commit.py) are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dedup_clone.checks import partition_checks, row_checks, table_checks
from dedup_clone.checks.check_result import (
    CheckResult,
    CheckResults,
    Level,
    accept,
    make_result,
    require_no_failure,
)
from dedup_clone.checks.table_checks import describe_buffer
from dedup_clone.contract.attempt import Attempt, Kind
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.publish.attempt_jobs import LOAD_STEP, REPLACE_STEP, SWAP_STEP, find_step_job
from dedup_clone.publish.attempts import SwapSpec, arrived_at, find_swap, save_check_results
from dedup_clone.publish.declared_form import swap_options
from dedup_clone.publish.early_checks import check_tables, kept_days, swap_way
from dedup_clone.publish.existing_table import check_existing_table, read_existing_table
from dedup_clone.publish.load import read_candidate
from dedup_clone.publish.services import Services
from dedup_clone.publish.sql_checks import run_sql_checks
from dedup_clone.state.current import Staging
from dedup_clone.state.ledger import PUBLISHES_COMPARED, LedgerRecord, Stage, count_loads
from dedup_clone.warehouse.metadata import Observation, TableMetadata


@dataclass
class Facts:
    """What the checks before the swap look at.

    `staging`: as observed now. The swap clones it as of that time, unless the attempt restores what it held earlier
    (`restored_at`). `target`: None if it does not exist. `sql_bytes_billed`: grows with each query of the feed's own
    checks.
    """

    services: Services
    attempt: Attempt
    candidate: Candidate
    manifest: Manifest
    staging: Observation
    target: TableMetadata | None
    sql_bytes_billed: int = 0


Check = Callable[[Facts], list[CheckResult]]


def check_before_swap(services: Services, attempt: Attempt) -> SwapSpec:
    """Check staging and the manifest, save the results, and return the parameters of the swap.

    Raises CheckFailed, LeaseLost, LostRace if another try saves its results meanwhile, and LookupError when staging
    does not exist. If the attempt's swap runs or has happened, as after a clear of the task, the recorded parameters
    are returned.
    """
    results_name, swap_name = services.layout.check_results(attempt.id, "before"), services.layout.swap_spec(attempt.id)
    saved = {info.name: info.object_generation for info in services.store.stat([results_name, swap_name])}
    services.current.require_intent(attempt.id)
    candidate, manifest = read_candidate(services, attempt.id)
    observation = services.warehouse.observe(services.names, services.feed.staging)
    target = services.warehouse.table(services.feed.target)
    facts = Facts(services, attempt, candidate, manifest, observation, target)
    items = [result for check in CHECKS[attempt.kind] for result in check(facts)]
    results = CheckResults("before", accept(items, attempt.accepted_checks, attempt.reason))
    services.current.record_jobs(attempt.id, ())  # LeaseLost if the attempt is being ended: what was found then stays
    save_check_results(services, attempt, results, replaces=saved.get(results_name, 0))
    if any(result.level is Level.FAIL and result.check in _ROWS_OF_STAGING for result in items):
        services.current.record_staging(Staging(attempt.id))  # LeaseLost if these are the rows of another run
    require_no_failure(results, "Target keeps its old content.")
    if find_step_job(services, attempt.id, SWAP_STEP).metadata is not None:
        begun = find_swap(services, attempt.id)
        if begun is not None:
            return begun  # the swap task reuses that job, so its parameters, above all its time, must stay
    swap = SwapSpec(
        attempt=attempt.id,
        generation=str(attempt.generation),
        parent="" if attempt.parent is None else str(attempt.parent),
        snapshot=str(attempt.snapshot_id if attempt.dates else manifest.snapshot_id),
        manifest=manifest.digest,
        description=f"{services.feed.description} Unique by {', '.join(manifest.table.keys)}.",
        checked_at=attempt.restored_at or observation.observed_at,
        expiration_days=manifest.table.retention_days,
        bytes_billed=facts.sql_bytes_billed,
        staging_bytes=observation.table.size,
        options=swap_options(services.feed.table),
        way=swap_way(services, attempt.kind, attempt.parent),
        previous_days=kept_days(services, attempt.kind),
    )
    # What another try has allowed since this one began may be what is being swapped.
    services.store.replace(swap_name, to_json(swap), expected_object_generation=saved.get(swap_name, 0))
    return swap


def check_surroundings(facts: Facts) -> list[CheckResult]:
    """Whether something about the tables would make BigQuery refuse the swap, or let it lose something."""
    tables = [facts.staging.table, *([facts.target] if facts.target else [])]
    return [
        *check_tables(facts.services, facts.staging.table, facts.target, facts.attempt.parent, facts.attempt.kind),
        table_checks.check_streaming_buffer(tables, facts.services.now()),
    ]


def check_form(facts: Facts) -> list[CheckResult]:
    """Whether staging has the columns that were declared when the run began, and both tables the layout."""
    contract = facts.attempt.table
    return [
        table_checks.check_staging_schema(facts.staging.table, contract),
        table_checks.check_layout(facts.staging.table, facts.target, contract),
    ]


def check_restored_form(facts: Facts) -> list[CheckResult]:
    """As `check_form`, but staging may have columns that later publishes added to those of the restored generation."""
    contract = facts.services.feed.table.to_contract()
    return [
        table_checks.check_staging_schema(facts.staging.table, facts.manifest.table, restores=True),
        table_checks.check_layout(facts.staging.table, facts.target, contract),
    ]


def check_rebuilt_form(facts: Facts) -> list[CheckResult]:
    """As `check_form`, but target still has its former clustering: it gets that of staging right before the swap."""
    contract = facts.services.feed.table.to_contract()
    return [
        table_checks.check_staging_schema(facts.staging.table, contract),
        table_checks.check_layout(facts.staging.table, None, contract),
    ]


def check_target(facts: Facts) -> list[CheckResult]:
    """Whether the swap replaces the parent."""
    attempt = facts.attempt
    return [table_checks.check_target_is_parent(facts.target, attempt.parent, attempt.generation)]


def check_target_taken_over(facts: Facts) -> list[CheckResult]:
    """As `check_target`, but target may be the table whose rows were exported."""
    attempt, existing = facts.attempt, read_existing_table(facts.services, facts.attempt.id)
    version = existing.version if existing.table == facts.services.feed.target else None
    return [table_checks.check_target_is_parent(facts.target, attempt.parent, attempt.generation, version)]


def check_rows(facts: Facts) -> list[CheckResult]:
    """Whether staging holds the manifest's rows; nothing if the swap clones staging as of an earlier time.

    Staging holds another generation by now then, and the checks after the swap cover target's rows.
    """
    if facts.attempt.restored_at is not None:
        return []
    manifest, observation = facts.manifest, facts.staging
    return [
        _loaded(facts),
        partition_checks.check_rows("staging_rows", manifest, observation),
        partition_checks.check_staging_unchanged(observation, _written_by_sql_at(facts)),
        partition_checks.check_expiration("staging_expiration", observation.table, manifest.table.retention_days),
    ]


def _loaded(facts: Facts) -> CheckResult:
    """Check that CURRENT says that staging holds the manifest's rows."""
    staging = facts.services.current.read().staging
    return make_result(
        "staging_loaded",
        staging is not None and staging.holds == facts.manifest.digest,
        found=f"manifest {staging.holds if staging else None}",
        expected=f"manifest {facts.manifest.digest}",
        next_step="clear the run from its first task.",
    )


def _written_by_sql_at(facts: Facts) -> datetime | None:
    """When an SQL engine's last statement on staging ended; None if staging was loaded from files, or no job is found.

    If a partition was modified after that time, somebody else did it, for example by a DML statement that waited until
    the engine's statement had ended. After a load from files this is no proof: BigQuery's own work on the table may
    count as a modification.
    """
    if facts.manifest.engine.runs_spark:
        return None
    services = facts.services
    job_ids = services.current.require_intent(facts.attempt.id).jobs
    ids = [job_id for job_id in job_ids if job_id.rsplit("-", 2)[1] in (LOAD_STEP, REPLACE_STEP)]
    jobs = [services.warehouse.job(job_id) for job_id in ids]
    return max((job.ended_at for job in jobs if job and job.ended_at and not job.error), default=None)


def check_manifest(facts: Facts) -> list[CheckResult]:
    """What the manifest says of the new generation, compared with the parent if its rows were the base of the dedup."""
    services, manifest, settings = facts.services, facts.manifest, facts.services.feed.checks
    generation = facts.attempt.parent if facts.attempt.parent_files else None
    parent = None if generation is None else services.manifests.read(generation)
    attempts = services.ledger.recent(facts.attempt.generation)
    history = [r.shares for r in attempts if r.has_usual_shares][-PUBLISHES_COMPARED:]
    own_loads = count_loads(services.current.require_intent(facts.attempt.id).jobs)
    return [
        row_checks.check_keys_unique(manifest, services.manifests.candidate_files(facts.candidate)),
        *row_checks.check_shares(manifest, settings, parent, history, facts.candidate.examples),
        row_checks.check_missing_dates(manifest, settings, facts.attempt.dates),
        row_checks.check_duplicate_keys(facts.candidate, settings),
        row_checks.check_partition_quota(manifest, _loads_of_last_day(services, attempts), own_loads),
    ]


def _loads_of_last_day(services: Services, attempts: list[LedgerRecord]) -> int:
    """The number of loads in the last 24 hours, failed ones too, by attempts that published or began a load.

    Each attempt counts as at least one load, because a swap without a load modifies target's partitions, too. An
    attempt's time is that of its swap; if it failed, the creation time of its ledger record.
    """
    since = services.now() - timedelta(days=1)
    failed = {services.layout.ledger_record(r.attempt): r for r in attempts if r.stage is Stage.CHECK}
    ended = [(r, r.swapped_at) for r in attempts if r.swapped_at]
    ended += [(failed[info.name], info.created_at) for info in services.store.stat(list(failed))]
    return sum(max(1, record.loads) for record, moment in ended if moment >= since)


def check_takeover(facts: Facts) -> list[CheckResult]:
    """Whether staging has the rows of the table that is taken over."""
    return check_existing_table(facts.services, facts.attempt.id, facts.manifest)


def check_own_sql(facts: Facts) -> list[CheckResult]:
    """The feed's own queries."""
    results, facts.sql_bytes_billed = run_sql_checks(facts.services, facts.staging.observed_at)
    return results


# If one of these fails, a later load must not rely on rows that staging holds already.
_ROWS_OF_STAGING = ("staging_rows", "staging_unchanged")
_TABLES = (check_surroundings, check_rows)

# Which checks run before the swap; docs/runbook.md has a table of all. Checks before the dedup are called where an
# attempt is prepared (early_checks.py, operations/). The rows of a rollback and of an erasure were published before, so
# the feed's own queries do not run again; nor do the checks of a restored manifest.
CHECKS: dict[Kind, tuple[Check, ...]] = {
    Kind.PUBLISH: (check_form, check_target, *_TABLES, check_manifest, check_own_sql),
    Kind.ROLLBACK: (check_restored_form, check_target, *_TABLES),
    Kind.BOOTSTRAP: (check_form, check_target_taken_over, *_TABLES, check_manifest, check_takeover, check_own_sql),
    Kind.REBUILD: (check_rebuilt_form, check_target, *_TABLES, check_manifest, check_takeover, check_own_sql),
    Kind.ERASE: (check_form, check_target, *_TABLES, check_manifest),
}


# The share of the freshness SLA that is left for checks, swap and commit after the wait.
SHARE_AFTER_WAIT = 0.1


def reason_to_wait(services: Services, attempt: Attempt) -> str | None:
    """The tables that have a streaming buffer, in words; None if no table has one, or if there is no time left to wait.

    The freshness SLA counts from the arrival of a new delivery, else from the time when the run acquired the lease.
    Without time left the run goes on, and its check `streaming_buffer` fails.
    """
    tables = [services.warehouse.table(name) for name in (services.feed.staging, services.feed.target)]
    buffered = [describe_buffer(table, services.now()) for table in tables if table and table.streaming_buffer]
    begin = attempt.taken_at if attempt.is_replay else arrived_at(services, attempt)
    time_left = begin + timedelta(minutes=services.feed.freshness.sla_minutes) * (1 - SHARE_AFTER_WAIT) - services.now()
    return "; ".join(buffered) if buffered and time_left > timedelta(0) else None
