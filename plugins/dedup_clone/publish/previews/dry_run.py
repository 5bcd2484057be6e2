"""Describes what a publish that starts now would read, load, delete and cost. Changes nothing, acquires no lease.

This dry run uses state, frozen inventories, listings and a few Parquet footers. It reads no landed row, so it does not
know which rows would change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from statistics import median

from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.landed_objects import SUFFIX, is_ignored, objects_by_date
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.request import Plan
from dedup_clone.publish.check import check_before_dedup
from dedup_clone.publish.early_refusals import footer_problems
from dedup_clone.publish.lease import require_own_feed
from dedup_clone.publish.planning.decision import Decision, decide, engine_of
from dedup_clone.publish.planning.landing_changes import changes_since_arrival
from dedup_clone.publish.planning.parent_generation import require_readable_parent
from dedup_clone.publish.prune import obsolete_after_next_publish
from dedup_clone.publish.records.publish_costs import expected_cost, with_expected_stream
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishRequest
from dedup_clone.state.index import published_records
from dedup_clone.state.ledger import PUBLISHES_COMPARED, Cost
from dedup_clone.state.parquet_footers import read_footers

FOOTERS_READ = 100  # at most; with more files the number of rows is estimated


@dataclass(frozen=True)
class LandingInput:
    """What would be read from landing. `files`, `rows`: their numbers. `size`: in bytes.

    `dates`: those within the retention; None for a feed without date folders. `too_old`: dates before the retention.
    `problems`: why deliveries would be refused: objects that changed in landing since the deliveries were registered,
    or else what the footers show. `rows` is 0 if objects changed.
    """

    files: int
    size: int
    rows: int
    rows_are_estimated: bool
    dates: tuple[date, ...] | None
    too_old: tuple[date, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class LiveInput:
    """What would be read and kept of the live generation, and what would be deleted.

    `dates`: how many dates the new generation would have. `copied_forward`: how many of them no delivery has. `size`:
    bytes of the live generation's files within the retention; `size_on_delivered_dates`: bytes of those whose dates the
    deliveries contain. `expired`: dates that leave the retention; `expired_rows`: their rows. `folders_deleted`: data
    folders, by names in the state bucket.
    """

    dates: int
    copied_forward: int
    size: int
    size_on_delivered_dates: int
    expired: tuple[date, ...]
    expired_rows: int
    folders_deleted: tuple[str, ...]


@dataclass(frozen=True)
class DryRun:
    """What a publish that starts now would do.

    `changes_target`: whether readers may see other rows; `effect` says how. `at_work`: the run that holds the lease;
    empty if none does. `live`: what would happen to the live generation. `loaded_bytes`: the approximate size of the
    files that would be loaded; 0 for engines in SQL. `seconds`: the dedup step's expected time, from earlier publishes;
    None before there are any, and if nothing would be published.
    """

    feed: str
    delivery: Delivery
    only_dates: tuple[date, ...] | None
    engine: Engine
    plan: Plan
    live_generation: int | None
    changes_target: bool
    effect: str
    applied: tuple[Delivery, ...]
    superseded: tuple[Delivery, ...]
    at_work: str
    landed: LandingInput
    live: LiveInput
    loaded_bytes: int
    seconds: float | None
    cost: Cost


def dry_run(services: Services, publish_request: PublishRequest) -> DryRun:
    """Return what the publish would do.

    Raises what `require_own_feed`, `decide`, `check_before_dedup` and `require_readable_parent` raise, as the publish
    itself would, and errors of Cloud Storage.
    """
    require_own_feed(services)
    decision, engine = decide(services, publish_request), engine_of(services, publish_request)
    if not decision.skip_reason:
        accepted, reason = publish_request.accepted_checks, publish_request.reason
        check_before_dedup(services, decision.parent_generation, accepted=accepted, reason=reason)
        require_readable_parent(services, decision.parent, engine)
    applied = () if decision.skip_reason else decision.backlog.apply
    intent = services.current.read().intent
    changes, effect = _effect(services, publish_request, decision)
    plan = Plan(publish_request.plan) if publish_request.plan else services.feed.dedup.plan
    read_deliveries = () if _reads_nothing(services, decision, engine, plan) else applied
    landed = _landing_input(services, [services.arrivals.read(d) for d in read_deliveries], publish_request.dates)
    live = _live_input(services, decision.parent, landed, publishes=bool(applied))
    return DryRun(
        feed=services.feed.feed,
        delivery=publish_request.delivery,
        only_dates=publish_request.dates,
        engine=engine,
        plan=plan,
        live_generation=decision.parent_generation,
        changes_target=changes,
        effect=effect,
        applied=applied,
        superseded=decision.backlog.superseded,
        at_work="" if intent is None else f"run [{intent.run_id}] of [{intent.dag_id}]",
        landed=landed,
        live=live,
        loaded_bytes=live.size + max(0, landed.size - live.size_on_delivered_dates)
        if applied and engine.runs_spark
        else 0,
        seconds=_expected_seconds(services, engine, landed.size) if applied else None,
        cost=_expected_cost(services, engine, decision.parent, landed) if applied else Cost(0, 0, 0, 0.0, None, None),
    )


def _effect(services: Services, publish_request: PublishRequest, decision: Decision) -> tuple[bool, str]:
    """Whether readers may see other rows, and how, as text."""
    parent, applied = decision.parent, decision.backlog.apply
    if decision.skip_reason:
        return False, f"nothing would be published: {decision.skip_reason}"
    if parent is None:
        return True, "the first publish: all rows are new"
    new = [d for d in applied if d not in parent.deliveries]
    if not new:
        return False, "the live generation has all of it, so the new generation would have the same rows"
    only = "" if publish_request.dates is None else f", on the requested dates; {_status_kept(services, decision)}"
    if new[-1].snapshot_id < parent.snapshot_id or (parent.deliveries and new[-1] < parent.deliveries[-1]):
        newest = parent.snapshot_id
        return (
            True,
            f"older than snapshot {newest}, which is live: only fills gaps, rows that newer snapshots lack{only}",
        )
    return True, f"rows of {', '.join(d.name for d in new)} replace older ones; rows that they lack stay{only}"


def _status_kept(services: Services, decision: Decision) -> str:
    """As text, which status the replayed delivery keeps, because only some of its dates are applied."""
    (delivery,) = decision.backlog.apply
    if decision.parent and delivery in decision.parent.excluded:
        return "the delivery itself stays excluded"
    if delivery in services.arrivals.refused():
        return "the delivery itself stays refused"
    return "the delivery itself stays to be published"


def _reads_nothing(services: Services, decision: Decision, engine: Engine, plan: Plan) -> bool:
    """Whether the Spark job would read nothing in landing; False for engines in SQL.

    It reads nothing if the live generation includes all deliveries and the plan does not rewrite them. If the retention
    became longer, it reads them nevertheless: they may have dates that the live generation dropped.
    """
    live = decision.parent
    if live is None or not engine.runs_spark or plan not in (Plan.AUTO, Plan.ADOPT):
        return False
    return (
        set(live.deliveries).issuperset(decision.backlog.apply) and services.retention_window()[0] >= live.retention_day
    )


def _landing_input(services: Services, arrivals: list[Arrival], only_dates: tuple[date, ...] | None) -> LandingInput:
    oldest, _ = services.retention_window()
    files: list[LandedObject] = []
    dates: set[date] = set()
    for arrival in arrivals:
        if not services.feed.landing.date_folders:
            files += [landed for landed in arrival.objects if _is_data_file(arrival, landed)]
            continue
        for day, date_files in objects_by_date(arrival, services.feed.table.partition_column).items():
            if only_dates is None or day in only_dates:
                files += date_files
                dates.add(day)
    problems = [problem for arrival in arrivals for problem in changes_since_arrival(services, arrival)]
    rows, estimated = 0, True
    if not problems:  # else files may be gone
        since, first_id = services.feed.table.since(), min((a.delivery.snapshot_id for a in arrivals), default=0)
        optional = {path for path, required_from in since.items() if first_id < required_from}
        rows, estimated, problems = _count_rows(services, files, optional)
    return LandingInput(
        files=len(files),
        size=sum(file.size for file in files),
        rows=rows,
        rows_are_estimated=estimated,
        dates=tuple(sorted(d for d in dates if d >= oldest)) if services.feed.landing.date_folders else None,
        too_old=tuple(sorted(d for d in dates if d < oldest)),
        problems=tuple(problems),
    )


def _is_data_file(arrival: Arrival, landed: LandedObject) -> bool:
    return landed.name.endswith(SUFFIX) and not is_ignored(landed.name.removeprefix(arrival.folder), landed.size)


def _count_rows(services: Services, files: list[LandedObject], optional: set[str]) -> tuple[int, bool, list[str]]:
    """The number of rows, whether it is an estimate, and the problems of the footers that are read.

    It is an estimate if there are so many files that only some footers are read. `optional`: the paths of columns that
    a file need not have.
    """
    step = -(-len(files) // FOOTERS_READ) or 1
    sample = files[::step]
    footers = read_footers(services.landing.store, [file.name for file in sample])
    columns = services.feed.table.to_contract().columns
    problems = [
        f"file [{services.landing.store.uri(footer.name)}] {problem}"
        for footer in footers
        for problem in footer_problems(footer, columns, optional)
    ]
    rows, size = sum(footer.rows for footer in footers), sum(file.size for file in sample)
    if step == 1 or not size:
        return rows, False, problems
    return round(rows / size * sum(file.size for file in files)), True, problems


def _live_input(services: Services, live: Manifest | None, landed: LandingInput, *, publishes: bool) -> LiveInput:
    """What happens to the live generation. `publishes`: whether anything is published; if not, it stays as it is."""
    if live is None or not publishes:
        return LiveInput(len(live.dates) if live else 0, len(live.dates) if live else 0, 0, 0, (), 0, ())
    oldest, _ = services.retention_window()
    retained = [e.date for e in live.dates if e.date >= oldest]
    delivered = set(retained if landed.dates is None else landed.dates)
    sizes = _sizes(services, live, retained)
    return LiveInput(
        dates=len({*retained, *delivered}),
        copied_forward=len(set(retained) - delivered),
        size=sum(sizes.values()),
        size_on_delivered_dates=sum(size for day, size in sizes.items() if day in delivered),
        expired=tuple(e.date for e in live.dates if e.date < oldest),
        expired_rows=sum(e.rows for e in live.dates if e.date < oldest),
        folders_deleted=tuple(obsolete_after_next_publish(services, live)),
    )


def _sizes(services: Services, live: Manifest, dates: Iterable[date]) -> dict[date, int]:
    """Bytes of each date's files; 0 if an SQL engine made the generation, because it then has no files."""
    sizes = dict.fromkeys(dates, 0)
    listed = services.manifests.committed_files(live.generation)
    for file in listed.files if listed else ():
        if file.date in sizes:
            sizes[file.date] += file.size
    return sizes


def _expected_cost(services: Services, engine: Engine, live: Manifest | None, landed: LandingInput) -> Cost:
    """The cost if delivered rows have the average size of the rows in staging, or in landing if staging is empty."""
    table, contract = services.warehouse.table(services.feed.staging), services.feed.table.to_contract()
    row_bytes = table.size / table.rows if table and table.rows else landed.size / max(landed.rows, 1)
    existing = sum(e.rows for e in live.dates if landed.dates is None or e.date in landed.dates) if live else 0
    cost = expected_cost(engine, contract, row_bytes, delivered=landed.rows, existing=existing)
    if engine is not Engine.CDC or live is None or table is None or not table.rows:
        return cost
    records = published_records(services.store, services.feed.feed)
    return with_expected_stream(cost, records, table, max_rows=services.feed.cdc.max_changed_share * live.rows)


def _expected_seconds(services: Services, engine: Engine, size: int) -> float | None:
    """The engine's median seconds per byte in its last publishes, times `size`; at least the seconds of the fastest.

    None if there are no such publishes.
    """
    records = [r for r in published_records(services.store, services.feed.feed) if r.engine is engine and r.bytes_read]
    timings = [(r.phases["dedup"], r.bytes_read) for r in records if "dedup" in r.phases][-PUBLISHES_COMPARED:]
    if not timings:
        return None
    return max(min(seconds for seconds, _ in timings), median(seconds / read for seconds, read in timings) * size)
