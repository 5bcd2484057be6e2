"""Writes a dry run as a Markdown table, for the log and the task's result. Estimates are marked with `about`."""

from __future__ import annotations

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.request import Plan
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.previews.dry_run import DryRun
from dedup_clone.state.ledger import Cost

PROBLEMS_NAMED = 5
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def dry_run_text(preview: DryRun) -> str:
    only_dates = "" if preview.only_dates is None else f", only {format_dates(preview.only_dates)}"
    live = "none" if preview.live_generation is None else str(preview.live_generation)
    lines = [
        f"**{preview.feed}: dry run of delivery {preview.delivery.name}{only_dates}**",
        "",
        f"Target would {'change' if preview.changes_target else 'not change'}: {preview.effect}. Nothing was written.",
    ]
    lines += [f"At work now: {preview.at_work}; what that run publishes may change this."] if preview.at_work else []
    problems = preview.landed.problems[:PROBLEMS_NAMED]
    lines += [f"**Would be refused**: {'; '.join(problems)}."] if problems else []
    lines += ["", "| what | value |", "| --- | --- |"]
    rows = [("live generation", live), *(_details(preview) if preview.applied else [])]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows)])


def _details(preview: DryRun) -> list[tuple[str, str]]:
    landed, live, cost = preview.landed, preview.live, preview.cost
    about = "about " if landed.rows_are_estimated else ""
    rows = "rows unknown" if landed.problems else f"{about}{landed.rows} rows"
    dates = "dates unknown until they are read" if landed.dates is None else f"dates {format_dates(landed.dates)}"
    return [
        ("included", _names(preview.applied)),
        ("superseded", _names(preview.superseded)),
        ("engine, plan", f"{preview.engine}, {preview.plan}" if preview.engine.runs_spark else preview.engine),
        (
            "read of landing",
            f"{landed.files} files, {_size(landed.size)}, {rows}; {dates}" if landed.files else "nothing",
        ),
        ("read of state", _read_of_state(preview)),
        (
            "dropped, older than the retention",
            f"{format_dates(landed.too_old)} of landing; {format_dates(live.expired)} of the "
            f"live generation ({live.expired_rows} rows)",
        ),
        ("dates kept as they are", f"{live.copied_forward} of {live.dates}"),
        (
            "seconds of dedup",
            "unknown before there are publishes" if preview.seconds is None else f"about {preview.seconds:.0f}",
        ),
        ("loaded into staging", _loaded(preview)),
        (
            "deleted after the commit",
            f"{len(live.folders_deleted)} data folders: {', '.join(live.folders_deleted) or 'none'}",
        ),
        ("billed", f"about {_size(cost.query_bytes_billed)} of queries, {cost.query_usd:.4f} USD on demand"),
        *_streamed(cost),
        ("instead, by MERGE or QUALIFY", f"about {cost.merge_usd or 0:.4f} or {cost.qualify_usd or 0:.4f} USD"),
    ]


def _read_of_state(preview: DryRun) -> str:
    if not preview.engine.runs_spark:
        return f"about {_size(preview.cost.table_bytes_read)} of tables, by BigQuery"
    size = _size(preview.live.size_on_delivered_dates)
    if preview.plan in (Plan.AUTO, Plan.ADOPT):
        return f"at most {size}; a small part where the delivery's files are adopted"
    return size


def _loaded(preview: DryRun) -> str:
    if not preview.engine.runs_spark:
        return "by the engine's statement"
    partitions = preview.live.dates or len(preview.landed.dates or ())
    return f"about {_size(preview.loaded_bytes)} in at most {partitions} partitions, free"


def _streamed(cost: Cost) -> list[tuple[str, str]]:
    if not cost.streamed_bytes:
        return []
    text = f"about {_size(cost.streamed_bytes)} of changed rows; {_size(cost.apply_bytes)} are read to apply them"
    return [("streamed", f"{text}; {cost.stream_usd:.4f} USD on demand")]


def _names(deliveries: tuple[Delivery, ...]) -> str:
    return ", ".join(delivery.name for delivery in deliveries) or "none"


def _size(size: float) -> str:
    power = 0
    while size >= 1024 and power + 1 < len(_UNITS):
        size, power = size / 1024, power + 1
    return f"{size:.1f} {_UNITS[power]}" if power else f"{size:.0f} {_UNITS[0]}"
