"""A dry run: what a publish that starts now would read, load, delete and cost. Takes no lease and writes nothing.

Told from state, frozen inventories, listings and a few footers; no landed row is read, so what rows bring is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from statistics import median

from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.landed_objects import SUFFIX, dates_of
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.request import Plan
from dedup_clone.publish.costs import expected_cost
from dedup_clone.publish.decision import Decision, decide, engine_of
from dedup_clone.publish.landing_changes import changes_since
from dedup_clone.publish.orders import Trigger
from dedup_clone.publish.prune import doomed_by_next
from dedup_clone.publish.replayed_dates import retained
from dedup_clone.publish.services import Services
from dedup_clone.state.index import published_records
from dedup_clone.state.ledger import Cost
from dedup_clone.state.parquet_footer import read_footers

FOOTERS_READ = 100
PUBLISHES_COMPARED = 20


@dataclass(frozen=True)
class Landed:
    """What is read of landing: data files, `size` in bytes, rows. `dates` is None without date folders."""

    files: int
    size: int
    rows: int
    rows_are_estimated: bool
    dates: tuple[date, ...] | None
    too_old: tuple[date, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class State:
    """What becomes of the live generation: sizes in bytes as stored, `expired` are dates out of the retention."""

    dates: int
    carried: int
    size: int
    size_of_delivered: int
    expired: tuple[date, ...]
    expired_rows: int
    folders_deleted: tuple[str, ...]


@dataclass(frozen=True)
class DryRun:
    """`changes_target`: whether readers may see other rows. `effect` says how; `at_work` names a run with the lease.

    `seconds` is the dedup step's usual time for so many bytes, None before there is a usual one.
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
    landed: Landed
    state: State
    loaded_bytes: int
    seconds: float | None
    cost: Cost


def dry_run(services: Services, trigger: Trigger) -> DryRun:
    """Raises what `decide` raises: an id, a delivery or a date that is not there is refused as in earnest."""
    decision, engine = decide(services, trigger), engine_of(services, trigger)
    applied = () if decision.nothing else decision.backlog.apply
    intent = services.current.read().intent
    changes, effect = _effect(trigger, decision)
    plan = Plan(trigger.plan) if trigger.plan else services.feed.dedup.plan
    read = () if _reads_nothing(services, decision, engine, plan) else applied
    landed = _landed(services, [services.arrivals.read(d) for d in read], trigger.dates)
    state = _state(services, decision.parent, landed, publishes=bool(applied))
    table = services.warehouse.table(services.feed.staging)
    table_bytes = max(table.size if table else 0, landed.size)
    return DryRun(
        feed=services.feed.feed,
        delivery=trigger.delivery,
        only_dates=trigger.dates,
        engine=engine,
        plan=plan,
        live_generation=decision.parent_generation,
        changes_target=changes,
        effect=effect,
        applied=applied,
        superseded=decision.backlog.superseded,
        at_work="" if intent is None else f"run [{intent.run_id}] of [{intent.dag_id}]",
        landed=landed,
        state=state,
        loaded_bytes=max(state.size, landed.size) if applied and engine is Engine.SPARK else 0,
        seconds=_usual_seconds(services, engine, landed.size) if applied else None,
        cost=expected_cost(engine, table_bytes=table_bytes) if applied else Cost(0, 0, 0, 0.0, 0.0, 0.0),
    )


def _effect(trigger: Trigger, decision: Decision) -> tuple[bool, str]:
    parent, applied = decision.parent, decision.backlog.apply
    if decision.nothing:
        return False, f"nothing would be published: {decision.nothing}"
    if parent is None:
        return True, "the first publish: all rows are new"
    new = [d for d in applied if d not in parent.deliveries]
    if not new:
        return False, "all of it is in the live generation already: the same rows, as a new generation"
    only = "" if trigger.dates is None else ", on the dates asked for; the delivery itself stays to be published"
    if new[-1].snapshot_id < parent.snapshot_id or (parent.deliveries and new[-1] < parent.deliveries[-1]):
        newest = parent.snapshot_id
        return (
            True,
            f"older than snapshot {newest}, which is live: only fills gaps, rows that newer snapshots lack{only}",
        )
    return True, f"rows of {', '.join(d.name for d in new)} replace older ones; what they lack stays{only}"


def _reads_nothing(services: Services, decision: Decision, engine: Engine, plan: Plan) -> bool:
    """Spark reads no delivery again that is in already, unless a plan is asked for that writes all dates anew."""
    live = decision.parent
    if live is None or engine is not Engine.SPARK or plan not in (Plan.AUTO, Plan.ADOPT):
        return False
    return set(live.deliveries).issuperset(decision.backlog.apply) and retained(services)[0] >= live.retention_day


def _landed(services: Services, arrivals: list[Arrival], only: tuple[date, ...] | None) -> Landed:
    oldest, _ = retained(services)
    files: list[LandedObject] = []
    dates: set[date] = set()
    for arrival in arrivals:
        if not services.feed.landing.date_folders:
            files += [landed for landed in arrival.objects if landed.name.endswith(SUFFIX)]
            continue
        for day, of_day in dates_of(arrival, services.feed.table.partition_column).items():
            if only is None or day in only:
                files += of_day
                dates.add(day)
    problems = [problem for arrival in arrivals for problem in changes_since(services, arrival)]
    rows, estimated = (0, True) if problems else _count_rows(services, files)
    return Landed(
        files=len(files),
        size=sum(file.size for file in files),
        rows=rows,
        rows_are_estimated=estimated,
        dates=tuple(sorted(d for d in dates if d >= oldest)) if services.feed.landing.date_folders else None,
        too_old=tuple(sorted(d for d in dates if d < oldest)),
        problems=tuple(problems),
    )


def _count_rows(services: Services, files: list[LandedObject]) -> tuple[int, bool]:
    """By their footers; of many files some, and the others by their size."""
    step = -(-len(files) // FOOTERS_READ) or 1
    chosen = files[::step]
    footers = read_footers(services.landing.store, [file.name for file in chosen])
    rows, size = sum(footer.rows for footer in footers), sum(file.size for file in chosen)
    if step == 1 or not size:
        return rows, False
    return round(rows / size * sum(file.size for file in files)), True


def _state(services: Services, live: Manifest | None, landed: Landed, *, publishes: bool) -> State:
    if live is None or not publishes:
        return State(len(live.dates) if live else 0, len(live.dates) if live else 0, 0, 0, (), 0, ())
    oldest, _ = retained(services)
    kept = [e.date for e in live.dates if e.date >= oldest]
    delivered = set(kept if landed.dates is None else landed.dates)
    sizes = _sizes(services, live, kept)
    return State(
        dates=len({*kept, *delivered}),
        carried=len(set(kept) - delivered),
        size=sum(sizes.values()),
        size_of_delivered=sum(size for day, size in sizes.items() if day in delivered),
        expired=tuple(e.date for e in live.dates if e.date < oldest),
        expired_rows=sum(e.rows for e in live.dates if e.date < oldest),
        folders_deleted=tuple(doomed_by_next(services, live)),
    )


def _sizes(services: Services, live: Manifest, kept: Iterable[date]) -> dict[date, int]:
    """Bytes of each date's files; nothing where an engine in SQL left none."""
    sizes = dict.fromkeys(kept, 0)
    listed = services.manifests.files(live.generation)
    for file in listed.files if listed else ():
        if file.date in sizes:
            sizes[file.date] += file.size
    return sizes


def _usual_seconds(services: Services, engine: Engine, size: int) -> float | None:
    """At the median rate of the last publishes by this engine, and no less than the quickest of them took."""
    records = [r for r in published_records(services.store, services.feed.feed) if r.engine is engine and r.bytes_read]
    known = [(r.phases["dedup"], r.bytes_read) for r in records if "dedup" in r.phases][-PUBLISHES_COMPARED:]
    if not known:
        return None
    return max(min(seconds for seconds, _ in known), median(seconds / read for seconds, read in known) * size)
