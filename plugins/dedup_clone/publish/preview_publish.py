"""Describes what a publish that starts now would read, drop and cost. Changes nothing and acquires no lease.

This dry run uses state, frozen inventories, listings and a few Parquet footers. It reads no landed row, so it does not
know which rows would change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.landed_objects import SUFFIX, is_ignored, objects_by_date
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.early_checks import check_before_dedup
from dedup_clone.publish.early_refusals import changes_since_arrival, footer_problems
from dedup_clone.publish.planning.decision import Decision, PublishRequest, decide, engine_of
from dedup_clone.publish.planning.parent_generation import require_readable_parent
from dedup_clone.publish.records.publish_costs import expected_cost, price_text, size_text
from dedup_clone.publish.services import Services
from dedup_clone.state.parquet_footers import read_footers

FOOTERS_READ = 100  # at most; with more files the number of rows is estimated
PROBLEMS_NAMED = 5


def preview_publish(services: Services, publish_request: PublishRequest) -> str:
    """What the publish would do, as Markdown.

    Raises what `CurrentFile.read_for`, `decide`, `check_before_dedup` and `require_readable_parent` raise, as the
    publish itself would, and errors of Cloud Storage.
    """
    services.current.read_for(services.environment)
    decision, engine = decide(services, publish_request), engine_of(services, publish_request)
    if not decision.skip_reason:
        accepted, reason = publish_request.accepted_checks, publish_request.reason
        check_before_dedup(services, decision.parent_generation, accepted=accepted, reason=reason)
        require_readable_parent(services, decision.parent, engine)
    only = "" if publish_request.dates is None else f", only {format_dates(publish_request.dates)}"
    lines = [
        f"**{services.feed.feed}: dry run of delivery {publish_request.delivery.name}{only}**",
        "",
        f"{_effect(services, publish_request, decision)}. Nothing was written.",
    ]
    intent = services.current.read().intent
    if intent is not None:
        lines.append(f"At work now: run [{intent.run_id}] of [{intent.dag_id}]; what it publishes may change this.")
    if not decision.skip_reason:
        lines += _details(services, publish_request, decision, engine)
    return "\n".join(lines)


def _effect(services: Services, publish_request: PublishRequest, decision: Decision) -> str:
    """Whether and how readers may see other rows."""
    parent, applied = decision.parent, decision.backlog.apply
    if decision.skip_reason:
        return f"Target would not change: nothing would be published. {decision.skip_reason.removesuffix('.')}"
    if parent is None:
        return "Target would change: the first publish, all rows are new"
    new = [d for d in applied if d not in parent.deliveries]
    if not new:
        return "Target would not change: the live generation has all of it, so the new one would have the same rows"
    only = "" if publish_request.dates is None else f", on the requested dates; {_status_kept(services, decision)}"
    if new[-1].snapshot_id < parent.snapshot_id or (parent.deliveries and new[-1] < parent.deliveries[-1]):
        return (
            f"Target would change: older than snapshot {parent.snapshot_id}, which is live: only fills gaps, rows that "
            f"newer snapshots lack{only}"
        )
    return f"Target would change: rows of {_names(new)} replace older ones; rows that they lack stay{only}"


def _status_kept(services: Services, decision: Decision) -> str:
    """As text, which status the replayed delivery keeps, because only some of its dates are applied."""
    (delivery,) = decision.backlog.apply
    if decision.parent and delivery in decision.parent.excluded:
        return "the delivery itself stays excluded"
    if delivery in services.arrivals.refused():
        return "the delivery itself stays refused"
    return "the delivery itself stays to be published"


def _details(services: Services, request: PublishRequest, decision: Decision, engine: Engine) -> list[str]:
    plan = Plan(request.plan) if request.plan else services.feed.dedup.plan
    live, applied = decision.parent, decision.backlog.apply
    read_deliveries = () if _reads_nothing(services, decision, engine, plan) else applied
    landed = _read_landing(services, [services.arrivals.read(d) for d in read_deliveries], request.dates)
    oldest, _ = services.retention_window()
    entries = live.dates if live else ()
    retained = {entry.date for entry in entries if entry.date >= oldest}
    expired = [entry for entry in entries if entry.date < oldest]
    delivered = retained if landed.dates is None else {day for day in landed.dates if day >= oldest}
    too_old = [day for day in landed.dates or () if day < oldest]
    rows = [
        ("live generation", str(live.generation) if live else "none"),
        ("included", _names(applied)),
        ("superseded", _names(decision.backlog.superseded)),
        ("engine, plan", f"{engine}, {plan}" if engine.runs_spark else str(engine)),
        ("read of landing", landed.text(delivered)),
        (
            "dropped, older than the retention",
            f"{format_dates(too_old)} of landing; {format_dates(e.date for e in expired)} of the live generation "
            f"({sum(e.rows for e in expired)} rows)",
        ),
        ("dates kept as they are", f"{len(retained - delivered)} of {len(retained | delivered)}"),
        ("billed", _cost_text(services, engine, live, landed)),
    ]
    if engine.runs_spark and live:
        rows.insert(5, ("read of state", f"at most {size_text(_size_of(services, live, retained & delivered))}"))
    problems = landed.problems[:PROBLEMS_NAMED]
    refused = [f"**Would be refused**: {'; '.join(problems)}."] if problems else []
    return [*refused, "", "| what | value |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]


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


@dataclass(frozen=True)
class _Landed:
    """What would be read from landing. `dates`: None for a feed without date folders.

    `problems`: why deliveries would be refused: objects that changed in landing since the deliveries were registered,
    or else what the footers show. `rows` is 0 if objects changed.
    """

    files: int
    size: int
    rows: int
    rows_are_estimated: bool
    dates: frozenset[date] | None
    problems: tuple[str, ...]

    def text(self, dates: set[date]) -> str:
        """`dates`: those within the retention."""
        if not self.files:
            return "nothing"
        about = "about " if self.rows_are_estimated else ""
        rows = "rows unknown" if self.problems else f"{about}{self.rows} rows"
        shown = "dates unknown until they are read" if self.dates is None else f"dates {format_dates(dates)}"
        return f"{self.files} files, {size_text(self.size)}, {rows}; {shown}"


def _read_landing(services: Services, arrivals: list[Arrival], only_dates: tuple[date, ...] | None) -> _Landed:
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
    return _Landed(
        files=len(files),
        size=sum(file.size for file in files),
        rows=rows,
        rows_are_estimated=estimated,
        dates=frozenset(dates) if services.feed.landing.date_folders else None,
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


def _size_of(services: Services, live: Manifest, dates: set[date]) -> int:
    """Bytes of the live generation's files of the dates; 0 if an SQL engine made it, because it then has no files."""
    listed = services.manifests.committed_files(live.generation)
    return sum(file.size for file in listed.files if file.date in dates) if listed else 0


def _cost_text(services: Services, engine: Engine, live: Manifest | None, landed: _Landed) -> str:
    """The cost if delivered rows have the average size of the rows in staging, or in landing if staging is empty."""
    table, contract = services.warehouse.table(services.feed.staging), services.feed.table.to_contract()
    row_bytes = table.size / table.rows if table and table.rows else landed.size / max(landed.rows, 1)
    existing = sum(e.rows for e in live.dates if landed.dates is None or e.date in landed.dates) if live else 0
    cost = expected_cost(engine, contract, row_bytes, delivered=landed.rows, existing=existing)
    streamed = ", and what is streamed" if engine is Engine.CDC else ""
    return (
        f"about {price_text(cost.query_bytes_billed)}{streamed}; instead by MERGE or QUALIFY about "
        f"{cost.merge_usd or 0:.2f} or {cost.qualify_usd or 0:.2f} USD"
    )


def _names(deliveries: Iterable[Delivery]) -> str:
    return ", ".join(delivery.name for delivery in deliveries) or "none"
