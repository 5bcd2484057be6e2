"""The form of the publish DAG, and its first steps, of which one acquires the lease and returns the attempt's id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowSkipException

from dedup_clone.checks.check_result import ACCEPTABLE_CHECKS
from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.operation import Operation, given_reason, required_reason
from dedup_clone.orchestration.step import FeedRun
from dedup_clone.orchestration.watch.publish_runs import is_automatic_run
from dedup_clone.orchestration.watchdog.feed_check import refresh_verdict
from dedup_clone.publish.date_ranges import parse_dates
from dedup_clone.publish.held_deliveries import discard_held
from dedup_clone.publish.preview_publish import preview_publish
from dedup_clone.publish.resolve import PublishRequest, resolve
from dedup_clone.publish.services import Services
from dedup_clone.settings.feed import Feed

RESOLVE_TASK, APPROVE_TASK, ACCEPTED_TASK = "resolve_publish", "approve_accepted", "resolve_accepted"
_NOT_WITH_DISCARD = ("dry_run", "dates", "engine", "plan", "accepted_checks")
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"


def params(feed: Feed) -> dict[str, Param]:
    """The parameters of the form. The watch DAG fills it for an arrival, a person for a replay."""
    acceptable_checks = [*ACCEPTABLE_CHECKS, *(check.result_name for check in feed.sql_checks)]
    return {
        "snapshot_id": Param(
            "",
            type=["null", "string"],
            pattern="^[0-9]{0,19}$",
            title="Snapshot id",
            description="The snapshot to publish (its update_id). Publishing it again changes no row that is right.",
        ),
        "marker_generation": Param(
            "",
            type=["null", "string"],
            pattern="^[0-9]{0,19}$",
            title="Delivery",
            description="Object generation of the marker; empty: the latest delivery of the snapshot.",
        ),
        "dates": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "pattern": f"^{_DATE}([.][.]{_DATE})?$"},
            title="Dates",
            description="Only these dates of the delivery, each YYYY-MM-DD or a range YYYY-MM-DD..YYYY-MM-DD; "
            "empty: all of it.",
        ),
        "engine": _optional_choice(Engine, title="Engine", description="What deduplicates; empty: the feed's engine."),
        "plan": _optional_choice(Plan, title="Plan", description="How Spark deduplicates; empty: the feed's plan."),
        "accepted_checks": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "enum": acceptable_checks},
            examples=acceptable_checks,
            title="Accepted checks",
            description="Checks that have failed for this delivery and may fail again. The run first shows what they "
            "found, and waits for an approval.",
        ),
        "dry_run": Param(
            False,
            type=["null", "boolean"],
            title="Dry run",
            description="Only show what would be read, computed, loaded, deleted and billed, and whether target would "
            "change: see the log or the result of resolve_publish.",
        ),
        "discard": Param(
            False,
            type=["null", "boolean"],
            title="Discard the delivery",
            description="Decide against a held delivery, which a check stopped: it is not reported any more. This run "
            "publishes nothing.",
        ),
        "reason": required_reason("Why this is published by hand; stored in the ledger and with the check results."),
    }


def _optional_choice(values: Iterable[str], *, title: str, description: str) -> Param:
    """A list to choose from. Airflow sends null while nothing is chosen."""
    return Param(
        None,
        type=["null", "string"],
        enum=[None, *(str(value) for value in values)],
        values_display={"null": "as the feed says"},
        title=title,
        description=description,
    )


def read_publish_request(run: FeedRun) -> PublishRequest:
    """Return the request that the filled form makes.

    Raises ConfigurationError when the feed is retired, when the form names no snapshot or a delivery that is not
    registered (the message names the registered ones), when a date is malformed, and for a plan of an SQL engine.
    """
    services, params = run.services, run.form
    services.current.read().require_in_use()
    delivery = _find_delivery(services, params["snapshot_id"], params["marker_generation"])
    dates = parse_dates(params["dates"]) if params["dates"] else None
    engine = Engine(params["engine"]) if params["engine"] else None
    if params["plan"] and not (engine or services.feed.engine).runs_spark:
        raise ConfigurationError(
            f"Engine [{engine or services.feed.engine}] has no plan: leave [plan] empty, or choose engine [spark]."
        )
    replay = dates is not None or not is_automatic_run(run.run_id, delivery)
    return PublishRequest(
        dag_id=run.dag_id,
        run_id=run.run_id,
        delivery=delivery,
        replay=replay,
        engine=engine,
        plan=params["plan"],
        accepted_checks=tuple(params["accepted_checks"] or ()),
        reason=given_reason(run) if replay else "",
        dates=dates,
    )


def _find_delivery(services: Services, snapshot_id: str | None, marker_generation: str | None) -> Delivery:
    """The registered delivery with this marker; the snapshot's latest one if `marker_generation` is empty or None."""
    registered = services.arrivals.deliveries()
    ids = ", ".join(str(number) for number in sorted({d.snapshot_id for d in registered})) or "none"
    if not snapshot_id:
        raise ConfigurationError(f"Name the snapshot to publish: parameter [snapshot_id]; registered snapshots: {ids}.")
    deliveries = [d for d in registered if str(d.snapshot_id) == snapshot_id]
    if not deliveries:
        raise ConfigurationError(
            f"Snapshot [{snapshot_id}] is not registered for [{services.feed.feed}]; registered snapshots: {ids}. "
            f"Land it with its marker, or name one of these."
        )
    matching = [d for d in deliveries if not marker_generation or marker_generation == str(d.marker_generation)]
    if not matching:
        raise ConfigurationError(
            f"Delivery [{marker_generation}] of snapshot [{snapshot_id}] is not registered for "
            f"[{services.feed.feed}]; its deliveries: {', '.join(str(d.marker_generation) for d in deliveries)}. "
            f"Name one of these, or leave it empty for the latest."
        )
    return matching[-1]


PUBLISH = Operation("a publish", read_publish_request, preview_publish, resolve)


def resolve_publish(run: FeedRun) -> Any:
    """Acquires the lease; the task's result is the attempt's id. Waits while another run holds the lease.

    If the run accepts failed checks, it shows to a person what they found, and `resolve_accepted` acquires the lease.
    The later tasks are skipped after a dry run, and when there is nothing to publish.
    """
    services, request = run.services, read_publish_request(run)
    if run.form["discard"] and (ignored := [name for name in _NOT_WITH_DISCARD if run.form[name]]):
        raise ConfigurationError(f"A discard publishes nothing: leave {ignored} empty, or [discard].")
    if run.form["dry_run"]:
        _, text = preview_publish(services, request)
        services.log(f"a publish would do this:\n{text}", snapshot_id=request.delivery.snapshot_id)
        run.skip(run.context["task"].get_flat_relative_ids(upstream=False), {"text": text})
    if run.form["discard"]:
        text = discard_held(services, request.delivery, request.reason)
        refresh_verdict(run.setup)
        raise AirflowSkipException(text)
    if request.accepted_checks:
        return PUBLISH.show(run)
    attempt_id = _acquire(run, form=request)
    run.skip([APPROVE_TASK, ACCEPTED_TASK], attempt_id)


def resolve_accepted(run: FeedRun) -> str:
    """As `resolve_publish`, after the approval. Fails if another generation than was shown is live by now."""
    return _acquire(run, show_task=RESOLVE_TASK)


def _acquire(run: FeedRun, **arguments: Any) -> str:
    attempt = PUBLISH.begin(run, **arguments)
    refresh_verdict(run.setup, reads_bigquery=False)  # the page counts the deliveries that wait
    return str(attempt.id)
