"""Computes the gauges that each check of a feed emits; docs/metrics.md describes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dedup_clone.freshness.arrival_checks import overdue_times
from dedup_clone.freshness.feed_state import FeedState


def gauges_line(values: Mapping[str, float], *, feed: str | None = None) -> str:
    """Format the values as a line of the log. Terraform's monitoring.tf makes log-based metrics from such lines."""
    names = [f"feed={feed}"] if feed else []
    return " ".join(["dedup_clone_gauges", *names, *(f"{name}={value:.10g}" for name, value in values.items())])


def feed_metrics(now: datetime, state: FeedState, open_incidents: int) -> dict[str, float]:
    """The gauges' values by name, without the prefix `dedup_clone.`; a value that is not known yet is left out.

    `open_incidents`: the number of the feed's open incidents.
    """
    oldest, expected = state.oldest_waiting, state.settings.expected_arrivals
    waiting_s = 0.0 if oldest is None else (now - oldest.arrived_at).total_seconds()
    values: dict[str, float | None] = {
        "deliveries_waiting": len(state.waiting),
        "waiting_seconds": waiting_s,
        "sla_seconds": state.sla.total_seconds(),
        "sla_share_used": waiting_s / state.sla.total_seconds(),
        "incidents_open": open_incidents,
        "arrivals_overdue": None if expected is None else len(overdue_times(expected, state.arrivals, now)),
    }
    last_audit = state.audits.last
    if last_audit is not None:
        values |= {
            "partitions_unequal": len(state.audits.unequal),
            "audit_age_seconds": (now - last_audit.audited_at).total_seconds(),
        }
    if state.history:
        last = state.history[-1]
        values |= {
            "lag_seconds": last.lag_s,
            "queued_seconds": last.phases.get("queued"),
            "rows": last.rows,
            "rows_new": last.new_rows,
            "rows_changed": last.changed_rows,
            "rows_kept": last.kept_rows,
        }
        if last.cost is not None:
            values |= {"cost_usd": last.cost.total_usd, "bytes_billed": last.cost.query_bytes_billed}
    if state.live is not None:
        values |= {
            "age_seconds": (now - state.live.arrived_at).total_seconds(),
            "generation": state.live.generation,
        }
    return {name: float(value) for name, value in values.items() if value is not None}
