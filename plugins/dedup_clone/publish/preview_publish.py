"""Describes what a publish that starts now would read, drop and cost. Changes nothing and acquires no lease.

It is a dry run, and what a person approves if the publish accepts failed checks. It uses state, frozen inventories,
listings and a few Parquet footers. It reads no landed row, so it does not know which rows would change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dedup_clone.checks.check_result import CheckResult, accepted_failures, listed
from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.landed_objects import SUFFIX, is_ignored, objects_by_date
from dedup_clone.contract.records import to_plain
from dedup_clone.contract.table import Absent
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.early_checks import check_before_dedup
from dedup_clone.publish.early_refusals import changes_since_arrival, read_sample
from dedup_clone.publish.held_deliveries import find_evidence
from dedup_clone.publish.parent_generation import require_readable_parent
from dedup_clone.publish.publish_costs import size_text
from dedup_clone.publish.resolve import Decision, PublishRequest, decide, engine_of
from dedup_clone.publish.services import Services

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
    decision, engine = decide(services, publish_request), engine_of(services, publish_request)
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
        early = check_before_dedup(services, decision.parent_generation, accepted=accepted, reason=reason)
        require_readable_parent(services, decision.parent, engine)
        if accepted:
            lines += _evidence(services, publish_request, decision, accepted_failures(early.items))
        lines += _details(services, publish_request, decision, engine)
    shown = {**to_plain(publish_request.delivery), "live_generation": decision.parent_generation}
    return shown, "\n".join(lines)


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


def _details(services: Services, request: PublishRequest, decision: Decision, engine: Engine) -> list[str]:
    plan = Plan(request.plan) if request.plan else services.feed.dedup.plan
    live, landed = decision.parent, _read_landing(services, decision, request.dates)
    oldest, _ = services.retention_window()
    entries = live.dates if live else ()
    retained = {entry.date for entry in entries if entry.date >= oldest}
    expired = [entry for entry in entries if entry.date < oldest]
    delivered = retained if landed.dates is None else {day for day in landed.dates if day >= oldest}
    too_old = [day for day in landed.dates or () if day < oldest]
    shown = "dates unknown until they are read" if landed.dates is None else f"dates {format_dates(delivered)}"
    rows = [
        ("live generation", str(live.generation) if live else "none"),
        ("included", _names(decision.backlog.apply)),
        ("superseded", _names(decision.backlog.superseded)),
        ("engine, plan", f"{engine}, {plan}" if engine.runs_spark else str(engine)),
        ("delivered", f"{landed.files} files, {size_text(landed.size)}, {landed.rows_text}; {shown}"),
        (
            "dropped, older than the retention",
            f"{format_dates(too_old)} of landing; {format_dates(e.date for e in expired)} of the live generation "
            f"({sum(e.rows for e in expired)} rows)",
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
    """What is delivered. `rows`: an estimate if only some footers were read, 0 if objects changed.

    `dates`: None for a feed without date folders. `problems`: why deliveries would be refused: objects that changed in
    landing since the deliveries were registered, or else what the footers show.
    """

    files: int
    size: int
    rows: int
    rows_text: str
    dates: frozenset[date] | None
    problems: tuple[str, ...]


def _read_landing(services: Services, decision: Decision, only_dates: tuple[date, ...] | None) -> _Landed:
    arrivals = [services.arrivals.read(delivery) for delivery in decision.backlog.apply]
    by_arrival = [_files_by_date(services, arrival, only_dates) for arrival in arrivals]
    files = [[landed for found in by_date.values() for landed in found] for by_date in by_arrival]
    problems = [problem for arrival in arrivals for problem in changes_since_arrival(services, arrival)]
    rows, text = 0, "rows unknown"
    if not problems:  # else files may be gone
        samples = [
            read_sample(services, arrival, landed, services.feed.table.since())
            for arrival, landed in zip(arrivals, files, strict=True)
        ]
        problems = [problem for _, found in samples for problem in found]
        for (footers, _), landed in zip(samples, files, strict=True):
            rows += sum(footer.rows for footer in footers) * len(landed) // max(len(footers), 1)
        is_estimate = any(len(footers) < len(landed) for (footers, _), landed in zip(samples, files, strict=True))
        text = f"{'about ' if is_estimate else ''}{rows} rows"
    dates = frozenset(day for by_date in by_arrival for day in by_date if day is not None)
    return _Landed(
        files=sum(map(len, files)),
        size=sum(landed.size for found in files for landed in found),
        rows=rows,
        rows_text=text,
        dates=dates if services.feed.landing.date_folders else None,
        problems=tuple(problems),
    )


def _files_by_date(
    services: Services, arrival: Arrival, only_dates: tuple[date, ...] | None
) -> Mapping[date | None, list[LandedObject]]:
    """The delivery's data files by date; all of them by None if the feed lands no date folders."""
    if services.feed.landing.date_folders:
        by_date = objects_by_date(arrival, services.feed.table.partition_column)
        return {day: found for day, found in by_date.items() if only_dates is None or day in only_dates}
    data_files = [o for o in arrival.objects if o.name.endswith(SUFFIX)]
    return {None: [o for o in data_files if not is_ignored(o.name.removeprefix(arrival.folder), o.size)]}


def _names(deliveries: Iterable[Delivery]) -> str:
    return ", ".join(delivery.name for delivery in deliveries) or "none"
