"""Check task: run the checks before the swap, save their results, and end the run if one fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from dedup_clone.checks import manifest_checks, partition_checks, table_checks
from dedup_clone.checks.check_result import CheckResult, CheckResults, accept, make_result, require_no_failure
from dedup_clone.checks.option_checks import check_undeclared_options
from dedup_clone.checks.share_checks import check_shares
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.schema_change import added_columns
from dedup_clone.contract.table import Column
from dedup_clone.publish.attempt_jobs import LOAD_STEP, REPLACE_STEP, SWAP_STEP, find_step_job
from dedup_clone.publish.existing_table import BootstrapRecord, check_existing_table, read_bootstrap_record
from dedup_clone.publish.load import read_candidate
from dedup_clone.publish.planning.declared_options import staging_options, swap_options
from dedup_clone.publish.policy_checks import check_policies
from dedup_clone.publish.records.attempt_records import find_swap, save_check_results, save_swap
from dedup_clone.publish.services import Services
from dedup_clone.publish.sql_checks import dry_run_sql_checks, run_sql_checks
from dedup_clone.publish.step_specs import PublishSpec, SwapSpec
from dedup_clone.state.current import Intent
from dedup_clone.state.index import ended_attempts
from dedup_clone.state.ledger import PUBLISHES_COMPARED, LedgerRecord, Stage, count_loads
from dedup_clone.state.staging import StagingState
from dedup_clone.warehouse.metadata import Observation, TableMetadata
from dedup_clone.warehouse.table_options import column_entry, row_policy_entry, without_removed_columns


def check_before_swap(services: Services, spec: PublishSpec) -> SwapSpec:
    """Check staging and the manifest, save the results, and return the parameters of the swap.

    Raises CheckFailed, LostRace when the attempt has lost the lease, LookupError when staging does not exist, and
    what `read_candidate`, `check_existing_table` and `run_sql_checks` raise.

    If the attempt's swap runs or has happened, as after a clear of the task, the recorded parameters are returned.

    Erasures and rollbacks skip the feed's own SQL checks: their rows were published before.

    A rollback also skips the checks of the manifest, which ran when the restored generation was first published. If the
    spec has `restored_at` (the time as of which the swap clones staging), the checks of staging's rows are skipped too,
    because staging holds another generation by now; the checks after the swap cover target's rows.
    """
    intent = services.current.require_intent(spec.attempt)
    bootstrap = read_bootstrap_record(services, spec.attempt) if intent.kind.takes_over_table else None
    candidate, manifest = read_candidate(services, spec)
    observation = services.warehouse.observe(services.names, services.feed.staging)
    items = _check_tables(services, spec, manifest, observation, bootstrap)
    if spec.restored_at is None:
        written_at = _written_by_sql_at(services, intent, manifest)
        items += [_check_loaded(services, manifest), *_check_rows(manifest, observation, written_at)]
    if spec.restores is None:
        parent = None if spec.parent is None or bootstrap else services.manifests.read(spec.parent)
        items += _check_manifest(services, spec, candidate, manifest, parent)
    if bootstrap is not None:
        items += check_existing_table(services, spec.attempt, bootstrap, manifest)
    sql_bytes_billed = 0
    if spec.restores is None and intent.kind is not Kind.ERASE:
        sql_results, sql_bytes_billed = run_sql_checks(services, observation.observed_at)
        items += sql_results
    results = CheckResults("before", accept(items, spec.accepted_checks, spec.reason))
    snapshot_id = spec.snapshot_id if bootstrap is None else manifest.snapshot_id
    save_check_results(services, spec.attempt, results, snapshot_id=snapshot_id, generation=spec.generation)
    require_no_failure(results, "Target keeps its old content.")
    begun = _begun_swap(services, spec.attempt)
    if begun is not None:
        return begun
    swap = SwapSpec(
        attempt=spec.attempt,
        generation=str(spec.generation),
        parent="" if spec.parent is None else str(spec.parent),
        snapshot=str(spec.snapshot_id if spec.dates else manifest.snapshot_id),
        manifest=manifest.digest,
        description=f"{services.feed.description} Unique by {', '.join(manifest.table.keys)}.",
        checked_at=spec.restored_at or observation.observed_at,
        expiration_days=manifest.table.retention_days,
        reason=spec.reason,
        bytes_billed=observation.bytes_billed + sql_bytes_billed,
        staging_bytes=observation.table.size,
        options=swap_options(services.feed.table),
    )
    save_swap(services, swap)
    return swap


def _begun_swap(services: Services, attempt: str) -> SwapSpec | None:
    """The parameters of the attempt's swap job that runs or has succeeded; None if there is no such job.

    The swap task reuses that job, so its parameters, above all its time, must stay those that are recorded.
    """
    has_job = find_step_job(services, attempt, SWAP_STEP).metadata is not None
    return find_swap(services, attempt) if has_job else None


def check_before_dedup(
    services: Services,
    parent: int | None,
    *,
    accepted: Collection[str] = (),
    reason: str = "",
    with_sql: bool = True,
    note: Callable[[CheckResults], None] | None = None,
) -> None:
    """Run the checks that do not depend on the new generation.

    Raises CheckFailed if one fails, and what `dry_run_sql_checks` raises.

    The same checks run again before the swap, because staging and target may change meanwhile. `parent`: the live
    generation. `accepted`: the checks whose failure the operator accepts; `reason`: why. `with_sql`: dry-run the feed's
    own queries, too. `note` is called with the results, whether or not one failed.
    """
    items = results_before_dedup(services, parent, with_sql=with_sql)
    results = CheckResults("before", accept(items, accepted, reason))
    if note is not None:
        note(results)
    require_no_failure(results, "Nothing was deduplicated, target keeps its old content.")


def results_before_dedup(services: Services, parent: int | None, *, with_sql: bool = True) -> list[CheckResult]:
    """The results of the checks that `check_before_dedup` runs. Raises what `dry_run_sql_checks` raises."""
    feed = services.feed
    staging, target = services.warehouse.table(feed.staging), services.warehouse.table(feed.target)
    results = [table_checks.check_target_is_parent(target, parent, None)]
    if target is not None:
        results.append(table_checks.check_materialized_views(services.warehouse.materialized_views_of(feed.target)))
    if staging is not None:
        results.append(table_checks.check_table_expiration([staging, *([target] if target else [])]))
        results.append(table_checks.check_layout(staging, target, feed.table.to_contract()))
        results += [*check_policies(services, "staging_policies", feed.staging), *_check_access(services)]
        results += _check_target_options(services, staging, target, parent)
        results += dry_run_sql_checks(services, staging) if with_sql else []
    return results


def _check_tables(
    services: Services,
    spec: PublishSpec,
    manifest: Manifest,
    observation: Observation,
    bootstrap: BootstrapRecord | None,
) -> list[CheckResult]:
    """Check staging and target. `observation`: of staging."""
    restores, contract = spec.restores is not None, services.feed.table.to_contract()
    target = services.warehouse.table(services.feed.target)
    bootstrapped_version = bootstrap.existing.version if bootstrap and bootstrap.existing.is_target else None
    return [
        table_checks.check_staging_schema(
            observation.table, manifest.table if restores else contract, restores=restores
        ),
        # In a rebuild target still has its former clustering: it gets that of staging right before the swap.
        table_checks.check_layout(observation.table, None if spec.rebuilds else target, contract),
        table_checks.check_table_expiration([observation.table, *([target] if target else [])]),
        table_checks.check_streaming_buffer([observation.table, *([target] if target else [])], services.now()),
        table_checks.check_target_is_parent(target, spec.parent, spec.generation, bootstrapped_version),
        table_checks.check_materialized_views(services.warehouse.materialized_views_of(services.feed.target)),
        *check_policies(services, "staging_policies", services.feed.staging),
        *_check_access(services),
        *_check_target_options(services, observation.table, target, spec.parent),
    ]


def _check_access(services: Services) -> list[CheckResult]:
    """Check that the run's account is allowed to read staging as of a past time.

    No result if the feed file declares no row access policies.
    """
    if not services.feed.table.policies.row_access:
        return []
    return [table_checks.check_staging_access(services.warehouse.missing_access(services.feed.staging))]


def _check_target_options(
    services: Services, staging: TableMetadata, target: TableMetadata | None, parent: int | None
) -> list[CheckResult]:
    """Check that the next swap removes no option, policy or description that others than this project set on target.

    Return one result; none if target is absent. `parent`: the live generation, None without one.
    """
    if target is None:
        return []
    declared = {**swap_options(services.feed.table), **staging_options(services.feed.table)}
    retained = {column.name for column in staging.columns}  # target may have columns that a rebuild drops
    live = None if parent is None else services.manifests.read(parent)
    swap = None if live is None else find_swap(services, live.attempt)
    entries = without_removed_columns(_options_and_policies(services, target), retained=retained)
    if live is not None:
        feed_file = services.feed.table.to_contract()
        entries |= _columns_by_hand(target, staging.columns, live.table.columns, feed_file.columns)
    return [
        check_undeclared_options(
            target=entries,
            staging=_options_and_policies(services, staging),
            declared=declared,
            # The next swap may remove what this one set, once it is not declared.
            last_set=swap.options if swap else {},
        )
    ]


def _columns_by_hand(target: TableMetadata, *known: Sequence[Column]) -> dict[str, str]:
    """Entries for the columns of target that are in none of the `known` lists: somebody added them."""
    added = set.intersection(*(set(added_columns(columns, target.columns)) for columns in known))
    return {column_entry(path): "added by hand" for path in sorted(added)}


def _options_and_policies(services: Services, table: TableMetadata) -> dict[str, str]:
    """The table's options and row access policies, as entries of `warehouse/table_options.py`."""
    policies = services.warehouse.row_policies(table.name)
    return {**table.options, **{row_policy_entry(name): text for name, text in policies.items()}}


def _check_loaded(services: Services, manifest: Manifest) -> CheckResult:
    """Check that STAGING records the manifest's rows as loaded."""
    staging = services.staging.read()
    found = "nothing" if staging is None else f"{staging.state} {staging.manifest_digest}"
    expected = f"{StagingState.LOADED} {manifest.digest}"
    return make_result(
        "staging_loaded",
        found == expected,
        found=found,
        expected=expected,
        next_step="clear the run from its first task.",
    )


def _written_by_sql_at(services: Services, intent: Intent, manifest: Manifest) -> datetime | None:
    """When an SQL engine's last statement on staging ended; None if staging was loaded from files, or no job is found.

    If a partition was modified after that time, somebody else did it, for example by a DML statement that waited until
    the engine's statement had ended. After a load from files this is no proof: BigQuery's own work on the table may
    count as a modification.
    """
    if manifest.engine.runs_spark:
        return None
    ids = [job_id for job_id in intent.jobs if job_id.rsplit("-", 2)[1] in (LOAD_STEP, REPLACE_STEP)]
    jobs = [services.warehouse.job(job_id) for job_id in ids]
    return max((job.ended_at for job in jobs if job and job.ended_at and not job.error), default=None)


def _check_rows(manifest: Manifest, observation: Observation, written_at: datetime | None) -> list[CheckResult]:
    return [
        partition_checks.check_rows("staging_rows", manifest, observation),
        partition_checks.check_staging_unchanged(observation, written_at),
        partition_checks.check_expiration("staging_expiration", observation, manifest.table.retention_days),
    ]


def _check_manifest(
    services: Services, spec: PublishSpec, candidate: Candidate, manifest: Manifest, parent: Manifest | None
) -> list[CheckResult]:
    """The results of the checks that read no table.

    `parent`: the generation with which the new one is compared; None in a first publish, and if the rows of
    a table were taken over.
    """
    settings = services.feed.checks
    attempts = ended_attempts(services.store, services.feed.feed)
    history = [r.shares for r in attempts if r.has_usual_shares][-PUBLISHES_COMPARED:]
    own_loads = count_loads(services.current.require_intent(spec.attempt).jobs)
    return [
        manifest_checks.check_keys_unique(manifest, services.manifests.candidate_files(candidate)),
        *check_shares(manifest, settings, parent, history, candidate.examples),
        manifest_checks.check_missing_dates(manifest, settings, spec.dates),
        manifest_checks.check_duplicate_keys(candidate, settings),
        manifest_checks.check_partition_quota(manifest, _loads_of_last_day(services, attempts), own_loads),
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
