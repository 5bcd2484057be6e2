"""Numbers for dashboards, one set a feed at each look; docs/metrics.md describes each."""

from __future__ import annotations

from datetime import datetime

from dedup_clone.freshness.arrivals import missed_slots
from dedup_clone.freshness.facts import Facts


def measures(now: datetime, facts: Facts, incidents_open: int) -> dict[str, float]:
    """Values by name, without the prefix `dedup_clone.`; what is not known yet is left out."""
    oldest, expected = facts.oldest_waiting, facts.settings.expected_arrivals
    values: dict[str, float | None] = {
        "deliveries_waiting": len(facts.waiting),
        "waiting_seconds": 0.0 if oldest is None else (now - oldest.arrived_at).total_seconds(),
        "promise_seconds": facts.promise.total_seconds(),
        "incidents_open": incidents_open,
        "arrivals_overdue": None if expected is None else len(missed_slots(expected, facts.arrivals, now)),
    }
    last_audit = facts.audits.last
    if last_audit is not None:
        values |= {
            "partitions_unequal": len(facts.audits.unequal),
            "audit_age_seconds": (now - last_audit.audited_at).total_seconds(),
        }
    if facts.history:
        last = facts.history[-1]
        values |= {
            "lag_seconds": last.lag_s,
            "rows": last.rows,
            "rows_new": last.new_rows,
            "rows_changed": last.changed_rows,
            "rows_kept": last.kept_rows,
        }
        if last.cost is not None:
            values |= {"cost_usd": last.cost.query_usd, "bytes_billed": last.cost.query_bytes_billed}
    if facts.live is not None:
        values |= {
            "age_seconds": (now - facts.live.arrived_at).total_seconds(),
            "generation": facts.live.generation,
        }
    return {name: float(value) for name, value in values.items() if value is not None}
