"""Runs what surrounds the feed's runs in this process: content audit, watchdog, approvals, recoveries, retirement.

Like testkit/runs.py, it knows which functions of the product these are; tests do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from dedup_clone.contract.erasure import parse_keys
from dedup_clone.contract.table import TableContract
from dedup_clone.freshness.evaluation import evaluate, find_incidents
from dedup_clone.freshness.feed_state import FeedState, PendingJob
from dedup_clone.freshness.read_feed_state import read_feed_state
from dedup_clone.freshness.verdict import write_verdict
from dedup_clone.operations import retire as retirements
from dedup_clone.operations import takeover
from dedup_clone.operations.erase import key_text
from dedup_clone.operations.lost_records import RecoveryPlan, carry_out, plan_recovery
from dedup_clone.orchestration import content_audit, step
from dedup_clone.orchestration.watchdog import reporting
from dedup_clone.orchestration.watchdog.feed_check import describe_feed_file
from dedup_clone.page.feed_reader import FeedReader
from dedup_clone.page.feed_view import page_view
from dedup_clone.publish.attempts import Form
from dedup_clone.publish.changes_table import load_changes
from dedup_clone.publish.commit import prune
from dedup_clone.publish.declared_form import approve_retention
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.sql_checks import run_sql_checks
from dedup_clone.state.current import Retirement, TargetAction
from dedup_clone.warehouse.row_sql import row_text
from testkit.deliveries import live_manifest
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.runs import Run

RETIRE_DAG = "feed_retire"


def audit(
    world: FeedOnStandIn, day: str | None = None, *, run_id: str = "audit", clears: int = 0
) -> list[tuple[str, int]]:
    """Run the task of the content audit DAG. Returns date and generation of each partition that it compared.

    `clears`: how often the task was cleared. Raises what the task raises.
    """
    setup: Any = None  # the task uses it only to open the services
    form, run = {"date": day}, SimpleNamespace(run_id=run_id)
    task_instance = SimpleNamespace(max_tries=clears)
    context: Any = {"dag_run": run, "ti": task_instance, "params": form, "dag": SimpleNamespace(params=form)}
    with patch.object(step, "open_feed_services", lambda _: world.services):
        records = content_audit.audit(setup, context)
    return [(found["date"], found["generation"]) for found in records]


def incidents(world: FeedOnStandIn) -> list[Any]:
    """The incidents that the watchdog finds now."""
    return list(find_incidents(world.services.now(), feed_state(world)))


def incident_names(world: FeedOnStandIn) -> list[str]:
    return [incident.name for incident in incidents(world)]


def pending_job(world: FeedOnStandIn) -> PendingJob | None:
    """The BigQuery job of the feed that the watchdog sees waiting for its start."""
    return feed_state(world).pending_job


def feed_state(world: FeedOnStandIn) -> FeedState:
    """What the watchdog reads of the feed now, without what only Airflow knows."""
    return read_feed_state(
        world.services,
        watch_dag=None,
        publish_is_paused=False,
        find_failed_run=lambda waiting: None,
    )


def page(world: FeedOnStandIn) -> dict[str, Any]:
    """What the page shows of the feed after a check by the watchdog."""
    now, file = world.services.now(), describe_feed_file(world.services, reads_bigquery=True)
    write_verdict(world.services.store, replace(evaluate(now, feed_state(world)), feed_file=file))
    records = FeedReader(lambda: world.services.store).read(world.feed.feed)
    assert records is not None
    return page_view(records, now)


def recover_after(world: FeedOnStandIn, change: Callable[[], Any]) -> None:
    """Carry out a plan to restore records that was made before the change."""
    plan = plan_recovery(world.services)
    change()
    carry_out(world.services, plan)


def approve_shorter_retention(world: FeedOnStandIn) -> None:
    """Approve that readers lose old dates, as `make plan` with APPLY=1 does."""
    approve_retention(world.services)


def key_and_its_sql(keys: str, table: TableContract) -> tuple[str, str]:
    """The text of the only key of a CSV text, from which its hash is made, and the SQL expression of the same text."""
    parsed = parse_keys(keys, table)
    return key_text(parsed, parsed.rows[0]), row_text(replace(table, columns=parsed.columns))


def delete_rebuilt_copies(world: FeedOnStandIn) -> None:
    """Run the last task of the rebuild that made the live generation."""
    manifest = live_manifest(world)
    assert manifest
    takeover.after_commit(world.services, None, world.services.manifests.attempt(manifest.attempt))


def retirement_preview(world: FeedOnStandIn, target: str) -> str:
    """What the retire DAG shows for approval."""
    return retirements.preview(world.services, _retirement_request(target))[1]


def retire(world: FeedOnStandIn, target: str) -> Retirement:
    """Retire the feed. `target`: keep or drop."""
    record = retirements.prepare(world.services, _retirement_request(target), None)
    retirements.carry_out(world.services, record)
    return record


def _retirement_request(target: str) -> retirements.RetirementRequest:
    return retirements.RetirementRequest(
        dag_id=RETIRE_DAG, run_id="retire", target=TargetAction(target), reason="no longer needed"
    )


def recover_lease(world: FeedOnStandIn, *, run_id: str = "other") -> None:
    """Do what another run does first: commit or discard what a dead run began."""
    recover(world.services, Form(dag_id="other", run_id=run_id, reason=""))


def recover_records(world: FeedOnStandIn, *, table_is_gone: bool = False) -> RecoveryPlan:
    """Restore lost records, as `deploy recover` does. Returns the plan."""
    plan = plan_recovery(world.services, table_is_gone=table_is_gone)
    carry_out(world.services, plan, table_is_gone=table_is_gone)
    return plan


def delete_obsolete(world: FeedOnStandIn) -> None:
    """Delete the files that nobody needs any more, as the last task of a publish does."""
    prune(world.services)


def load_waiting_changes(world: FeedOnStandIn) -> None:
    """Load what the table of changes lacks, as the watchdog does."""
    load_changes(world.services)


def late_tables(world: FeedOnStandIn) -> list[str]:
    """The tables that have lacked rows for so long that the watchdog reports it."""
    return list(reporting.late_tables(world.services))


def sql_check_levels(run: Run, *, change_meanwhile: Callable[[], Any]) -> list[str]:
    """The levels of the feed's SQL checks, if staging changes after the moment that the swap would clone."""
    services = run.world.services
    moment = services.warehouse.observe(services.names, run.world.feed.staging).observed_at
    change_meanwhile()
    return [result.level.value for result in run_sql_checks(services, moment)[0]]
