"""Describes what a publish that starts now would read, drop and cost. Changes nothing and acquires no lease.

It is a dry run, and what a person approves if the publish accepts failed checks. It uses state, frozen inventories,
listings and a few Parquet footers. It reads no landed row, so it does not know which rows would change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dedup_clone.checks.check_result import CheckResult, accepted_failures, listed, require_no_failure
from dedup_clone.contract.attempt import Attempt, Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.landed_objects import DataObject
from dedup_clone.contract.records import to_plain
from dedup_clone.contract.table import Absent
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.early_checks import NOT_DEDUPLICATED, check_before_dedup
from dedup_clone.publish.early_refusals import changes_since_arrival, examine_landing
from dedup_clone.publish.held_deliveries import find_evidence
from dedup_clone.publish.parent_generation import require_readable_parent
from dedup_clone.publish.publish_costs import size_text
from dedup_clone.publish.resolve import Decision, PublishRequest, decide, engine_of, plan_attempt
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent

PROBLEMS_NAMED = 5
# What happens to rows that the deliveries lack, by `absent_keys` and `absent_dates`.
_LACKED = {
    (Absent.KEEP, Absent.KEEP): "rows that they lack stay",
    (Absent.DELETE, Absent.KEEP): "keys that they lack are deleted on dates that they have",
    (Absent.DELETE, Absent.DELETE): "keys and dates that the newest of them lacks are deleted",
}


def preview_publish(services: Services, publish_request: PublishRequest) -> tuple[dict[str, Any], str]:
    """The delivery and the live generation, and as Markdown what the publish would do.

    Raises what the publish itself would raise before its dedup. Raises ConfigurationError if the publish is to accept
    failed checks, and nothing would be published, the delivery would be refused, or one of the checks has not failed
    for it yet, so that nobody could see what it found.
    """
    services.current.read_for(services.environment)
    decision = decide(services, publish_request)
    if publish_request.accepted_checks and decision.skip_reason:
        raise ConfigurationError(decision.skip_reason)
    only = "" if publish_request.dates is None else f", only {format_dates(publish_request.dates)}"
    lines = [
        f"**{services.feed.feed}: what a publish of delivery {publish_request.delivery.name}{only} would do**",
        "",
        f"{_effect(services, publish_request, decision)}. Nothing was written.",
    ]
    intent = services.current.read().intent
    if intent is not None:
        lines.append(f"At work now: run [{intent.run_id}] of [{intent.dag_id}]; what it publishes may change this.")
    if not decision.skip_reason:
        accepted, reason = publish_request.accepted_checks, publish_request.reason
        early = check_before_dedup(services, decision.parent_generation, Kind.PUBLISH, accepted=accepted, reason=reason)
        require_no_failure(early, NOT_DEDUPLICATED)
        require_readable_parent(services, decision.parent, engine_of(services, publish_request))
        if accepted:
            lines += _evidence(services, publish_request, decision, accepted_failures(early.items))
        lines += _details(services, publish_request, decision, _draft(services, publish_request, decision))
    shown = {**to_plain(publish_request.delivery), "live_generation": decision.parent_generation}
    return shown, "\n".join(lines)


def _draft(services: Services, request: PublishRequest, decision: Decision) -> Attempt:
    """The attempt that the publish would begin, without a name, because there is no lease."""
    parent = decision.parent_generation
    intent = Intent(Kind.PUBLISH, request.dag_id, request.run_id, "", parent, 0, services.now(), ())
    return plan_attempt(services, request, decision, intent)


def _evidence(
    services: Services, request: PublishRequest, decision: Decision, failing_now: tuple[CheckResult, ...]
) -> list[str]:
    """What the checks found that the publish accepts, and those that failed with them."""
    stopped, live = find_evidence(services, request.delivery, request.dates), decision.parent_generation
    failed = {result.check: result for result in (*(stopped.failed if stopped else ()), *failing_now)}
    if unseen := [f"[{check}]" for check in request.accepted_checks if check not in failed]:
        raise ConfigurationError(
            f"Delivery [{request.delivery.name}] has not failed {listed(unseen)}, so nobody can see what would be "
            f"accepted: replay it without accepting that. If the check fails then, accept it in one more replay."
        )
    lines = ["", f"Readers see generation {live or 'none'} until the swap. If you reject this, nothing changes."]
    if stopped is not None:
        together = f" with {_names(stopped.deliveries)}" if stopped.deliveries != (request.delivery,) else ""
        moved = stopped.parent != live
        lines.append(
            f"The checks stopped run [{stopped.run_id}]{together}, on top of generation {stopped.parent or 'none'}"
            + (f"; on top of generation {live or 'none'} they may find something else." if moved else ".")
        )
    rows = (
        f"| {check} | {_cell(r.found)} | {_cell(r.expected)} | {'yes' if check in request.accepted_checks else 'no'} |"
        for check, r in failed.items()
    )
    return [*lines, "", "| failed check | found | expected | accepted |", "| --- | --- | --- | --- |", *rows]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _effect(services: Services, publish_request: PublishRequest, decision: Decision) -> str:
    """Whether and how readers may see other rows."""
    parent, applied = decision.parent, decision.backlog.apply
    if decision.skip_reason:
        return f"Target would not change: nothing would be published. {decision.skip_reason.removesuffix('.')}"
    if parent is None:
        return "Target would change: the first publish, all rows are new"
    new = [d for d in applied if d not in parent.deliveries]
    table = services.feed.table
    deletes = table.absent_keys is Absent.DELETE
    if not (new or deletes or parent.has_deleted):
        return "Target would not change: the live generation has all of it, so the new one would have the same rows"
    only = "" if publish_request.dates is None else ", on the requested dates; the delivery itself stays what it is"
    shown, keeps_dates = new or applied, table.absent_dates is Absent.KEEP
    if shown[-1].snapshot_id < parent.snapshot_id or (parent.deliveries and shown[-1] < parent.deliveries[-1]):
        gaps = f"{'dates' if deletes else 'rows'} that newer snapshots lack{only}"
        effect = f"only fills gaps, {gaps}" if keeps_dates else "which has other rows or none, and they stay"
        return f"Target would change: older than snapshot {parent.snapshot_id}, which is live: {effect}"
    lacked = _LACKED[table.absent_keys, table.absent_dates if not only else Absent.KEEP]
    return f"Target would change: rows of {_names(shown)} replace older ones; {lacked}{only}"


def _details(services: Services, request: PublishRequest, decision: Decision, draft: Attempt) -> list[str]:
    live, landed, has_dates = decision.parent, _read_landing(services, draft), draft.date_folders
    oldest, days = draft.retention_day, {file.day for file in landed.files if file.day}
    entries = live.dates if live else ()
    retained = {entry.date for entry in entries if entry.date >= oldest}
    expired = [entry for entry in entries if entry.date < oldest]
    delivered = {day for day in days if day >= oldest} if has_dates else retained
    shown = f"dates {format_dates(delivered)}" if has_dates else "dates unknown until they are read"
    size = sum(file.landed.size for file in landed.files)
    rows = [
        ("live generation", str(live.generation) if live else "none"),
        ("included", _names(decision.backlog.apply)),
        ("superseded", _names(decision.backlog.superseded)),
        ("engine, plan", f"{draft.engine}, {draft.plan}" if draft.engine.runs_spark else str(draft.engine)),
        ("delivered", f"{len(landed.files)} files, {size_text(size)}, {landed.rows}; {shown}"),
        (
            "dropped, older than the retention",
            f"{format_dates(days - delivered)} of landing; {format_dates(e.date for e in expired)} of the live "
            f"generation ({sum(e.rows for e in expired)} rows)",
        ),
        ("dates that are not delivered", f"{len(retained - delivered)} of {len(retained | delivered)}"),
    ]
    problems = landed.problems[:PROBLEMS_NAMED]
    if problems and request.accepted_checks:
        raise ConfigurationError(f"Delivery [{request.delivery.name}] would be refused: {'; '.join(problems)}.")
    refused = [f"**Would be refused**: {'; '.join(problems)}."] if problems else []
    return [*refused, "", "| what | value |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]


@dataclass(frozen=True)
class _Landed:
    """What is delivered. `rows`: their number as text. `problems`: why deliveries would be refused."""

    files: list[DataObject]
    rows: str
    problems: list[str]


def _read_landing(services: Services, draft: Attempt) -> _Landed:
    arrivals = [services.arrivals.read(delivery) for delivery in draft.deliveries]
    examined = [examine_landing(services, draft, arrival) for arrival in arrivals]
    files = [file for found in examined for file in found.files]
    problems = [problem for arrival in arrivals for problem in changes_since_arrival(services, arrival)]
    problems += [problem for found in examined for problem in found.problems]
    if problems:
        return _Landed(files, "rows unknown", problems)
    rows = sum(sum(one.rows for one in e.footers) * len(e.files) // max(len(e.footers), 1) for e in examined)
    is_estimate = any(len(e.footers) < len(e.files) for e in examined)
    return _Landed(files, f"{'about ' if is_estimate else ''}{rows} rows", [])


def _names(deliveries: Iterable[Delivery]) -> str:
    return ", ".join(delivery.name for delivery in deliveries) or "none"
