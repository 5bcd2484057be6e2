"""A dry run as a table in Markdown, for the log and for whoever asked. Marks what is estimated."""

from __future__ import annotations

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.request import Plan
from dedup_clone.publish.date_ranges import say_dates
from dedup_clone.publish.dry_run import DryRun

PROBLEMS_NAMED = 5
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def dry_run_text(found: DryRun) -> str:
    only = "" if found.only_dates is None else f", only {say_dates(found.only_dates)}"
    live = "none" if found.live_generation is None else str(found.live_generation)
    lines = [
        f"**{found.feed}: dry run of delivery {found.delivery.name}{only}**",
        "",
        f"Target would {'change' if found.changes_target else 'not change'}: {found.effect}. Nothing was written.",
    ]
    lines += [f"At work now: {found.at_work}; what it publishes may change this."] if found.at_work else []
    lines += (
        [f"**Would be refused**: {'; '.join(found.landed.problems[:PROBLEMS_NAMED])}."] if found.landed.problems else []
    )
    lines += ["", "| | |", "| --- | --- |"]
    rows = [("live generation", live), *(_work(found) if found.applied else [])]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows)])


def _work(found: DryRun) -> list[tuple[str, str]]:
    landed, state, cost = found.landed, found.state, found.cost
    counted = "about " if landed.rows_are_estimated else ""
    rows = "rows unknown" if landed.problems else f"{counted}{landed.rows} rows"
    dates = "dates unknown until they are read" if landed.dates is None else f"dates {say_dates(landed.dates)}"
    return [
        ("folded in", _names(found.applied)),
        ("superseded", _names(found.superseded)),
        ("engine, plan", f"{found.engine}, {found.plan}" if found.engine is Engine.SPARK else str(found.engine)),
        (
            "read of landing",
            f"{landed.files} files, {_size(landed.size)}, {rows}; {dates}" if landed.files else "nothing",
        ),
        ("read of state", _read_of_state(found)),
        (
            "dropped, older than the retention",
            f"{say_dates(landed.too_old)} of landing; {say_dates(state.expired)} of the "
            f"live generation ({state.expired_rows} rows)",
        ),
        ("dates kept as they are", f"{state.carried} of {state.dates}"),
        (
            "seconds of dedup",
            "unknown before there are publishes" if found.seconds is None else f"about {found.seconds:.0f}",
        ),
        ("loaded into staging", _loaded(found)),
        (
            "deleted after the commit",
            f"{len(state.folders_deleted)} data folders: {', '.join(state.folders_deleted) or 'none'}",
        ),
        ("billed", f"about {_size(cost.query_bytes_billed)} of queries, {cost.query_usd:.4f} USD on demand"),
        ("instead, by MERGE or QUALIFY", f"about {cost.merge_usd:.4f} or {cost.qualify_usd:.4f} USD"),
    ]


def _read_of_state(found: DryRun) -> str:
    if found.engine is not Engine.SPARK:
        return f"about {_size(found.cost.table_bytes_read)} of tables, by BigQuery"
    size = _size(found.state.size_of_delivered)
    if found.plan in (Plan.AUTO, Plan.ADOPT):
        return f"at most {size}; a small part where the delivery's files are adopted"
    return size


def _loaded(found: DryRun) -> str:
    if found.engine is not Engine.SPARK:
        return "by the engine's statement"
    partitions = found.state.dates or len(found.landed.dates or ())
    return f"about {_size(found.loaded_bytes)} in at most {partitions} partitions, free"


def _names(deliveries: tuple[Delivery, ...]) -> str:
    return ", ".join(delivery.name for delivery in deliveries) or "none"


def _size(size: float) -> str:
    power = 0
    while size >= 1024 and power + 1 < len(_UNITS):
        size, power = size / 1024, power + 1
    return f"{size:.1f} {_UNITS[power]}" if power else f"{size:.0f} {_UNITS[0]}"
