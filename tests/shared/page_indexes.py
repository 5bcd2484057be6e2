"""Generates page indexes of three feeds, and the watchdog's verdicts on them, for tests of the page Snapshots."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.kind import Kind
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import ExpectedTime, ExpectedTimeState, FreshnessStatus, FreshnessVerdict
from dedup_clone.state.index import (
    DeliveryState,
    ExpectedTimes,
    Index,
    IndexArrival,
    IndexAudit,
    IndexChecks,
    IndexDate,
    IndexGeneration,
    IndexLanding,
    IndexStopped,
    IndexVerdict,
    TimeTravel,
)
from dedup_clone.state.ledger import Cost, LedgerRecord, Outcome, Stage

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)
# The table of docs/costs.md, of which README and docs/page.md show a picture.
ROWS = 312_500_000_000
DATES = 730
DAY_ROWS = ROWS // DATES
TABLE_BYTES = 15e12
FILES = 7300


def delivery(number: int) -> Delivery:
    return Delivery(2000 + number, 1_795_000_000_000_000 + number)


def record(number: int, arrived_at: datetime, lag_s: float, **changes: Any) -> LedgerRecord:
    rows = ROWS
    values: dict[str, Any] = {
        "feed": "product_attributes",
        "kind": Kind.PUBLISH,
        "outcome": Outcome.PUBLISHED,
        "stage": Stage.COMMIT,
        "reason": "",
        "snapshot_id": delivery(number).snapshot_id,
        "deliveries": (delivery(number),),
        "generation": number,
        "parent": number - 1 or None,
        "attempt": f"{number:08d}-a1b2c3",
        "dag_id": "product_attributes_publish",
        "run_id": f"publish__{delivery(number).snapshot_id}__{delivery(number).marker_generation}",
        "restores": None,
        "engine": Engine.SPARK,
        "plans": ("adopt",),
        "arrived_at": arrived_at,
        "swapped_at": arrived_at + timedelta(seconds=lag_s),
        "lag_s": lag_s,
        "rows": rows,
        "new_rows": rows // 2000 + number * 7919 % 100 * 10**6,
        "changed_rows": rows // 1000 + number * 104_729 % 100 * 10**6,
        "kept_rows": rows // 3000,
        "bytes_read": 10**12,
        "bytes_written": 10**10,
        "cluster_overlap": 0.25 if number % 2 else None,
        "shares": {"new_share": 0.0005, "survivor_share": 0.0003, "changed_share": 0.001},
        "phases": {"until_lease": 5.0, "dedup": lag_s / 2, "load": lag_s / 3, "swap": 1.0},
        "cost": Cost(2 * 10**7, 2 * 10**6, 1500, 0.0002, 241.6, 170.5, spark_usd=5.14, dcu_hours=85.7),
    }
    return LedgerRecord(**{**values, **changes})


def arrival(
    number: int, arrived_at: datetime, state: DeliveryState = DeliveryState.PUBLISHED, **changes: Any
) -> IndexArrival:
    values = {"files": FILES, "bytes": int(TABLE_BYTES), "state": state, "reason": "", "refused_at": None, **changes}
    return IndexArrival(delivery(number), arrived_at, **values)


def checks(number: int, *, fails: bool = False) -> IndexChecks:
    share = ("fail", f"12,912,500,000 of {ROWS:,} rows new (4.1320%)") if fails else ("pass", "0.0500%")
    verdicts = (
        IndexVerdict("before", "staging_rows", "pass", "730 of 730 as in the manifest", "every partition", ""),
        IndexVerdict(
            "before", "new_share", *share, "at most 20.00% as configured and 1.00% as usual",
            "look at the snapshot with its producer; if it is right, replay and accept [new_share]." if fails else "",
        ),
        IndexVerdict("before", "duplicate_keys", "warn", "12 surplus rows", "none", "ask the producer."),
        *(() if fails else (IndexVerdict("after", "clone_of_staging", "pass", "of staging at T", "the same", ""),)),
    )  # fmt: skip
    return IndexChecks(f"{number:08d}-a1b2c3", number, delivery(number).snapshot_id, verdicts)


def make_index(publishes: int = 120, dates: int = DATES, now: datetime = NOW, **changes: Any) -> Index:
    """The index of a feed with six arrivals a day, whose newest delivery arrived 78 minutes before `now`.

    `publishes`, `dates`: their numbers. `changes`: other values of the index's fields.
    """
    chance = random.Random(7)
    newest = now - timedelta(minutes=78)
    moments = [newest - timedelta(hours=4 * (publishes - number)) for number in range(1, publishes + 1)]
    times = tuple(f"{newest - timedelta(hours=4 * place, minutes=6):%H:%M}" for place in range(6))
    records = tuple(
        record(number, at, chance.uniform(21, 41) * 60 if number % 37 else 68 * 60)
        for number, at in enumerate(moments, 1)
    )
    today = now.date()
    values: dict[str, Any] = {
        "feed": "product_attributes",
        "description": "Value of each attribute of each product in each store, by day.",
        "owner": "data-platform",
        "target": "local-dev.warehouse.product_attributes",
        "engine": Engine.SPARK,
        "landing": IndexLanding("gs://landing/shop/attributes/", "date=YYYY-MM-DD/*.parquet", "_SUCCESS"),
        "sla_minutes": 60,
        "expected": ExpectedTimes(times, "UTC", 30),
        "max_age_minutes": None,
        "generation": publishes or None,
        "retention_days": 730,
        "dates": tuple(
            IndexDate(today - timedelta(days=days), int(DAY_ROWS * chance.uniform(0.7, 1.2)), chance.randrange(90_000))
            for days in reversed(range(dates))
        ),
        "records": records,
        "failures": (),
        "arrivals": tuple(
            arrival(number, at, dates=f"{today - timedelta(days=740)}, {today - timedelta(days=700)}..{today}")
            for number, at in enumerate(moments, 1)
        )[-200:],
        "checks": tuple(checks(number) for number in range(max(1, publishes - 9), publishes + 1)),
        "generations": tuple(
            IndexGeneration(
                r.generation,
                None,
                r.snapshot_id,
                r.rows,
                r.swapped_at,
                r.swapped_at,
                f"data/{r.generation}/",
                r.generation >= publishes - 1,
            )
            for r in records[-50:]
            if r.swapped_at
        ),
        "excluded": (),
        "time_travel": TimeTravel(168.0, now - timedelta(days=200)),
        "audit": IndexAudit((), today - timedelta(days=33), publishes, "equal", now - timedelta(hours=9)),
    }
    return Index(**{**values, **changes})


def fresh(now: datetime = NOW) -> Index:
    """A feed in which nothing is wrong."""
    return make_index(now=now)


def late(now: datetime = NOW) -> Index:
    """A feed in which a delivery was refused, and the next one failed its check and waits for longer than the SLA."""
    index = make_index(now=now - timedelta(hours=3))
    refused = arrival(
        121, now - timedelta(minutes=100), DeliveryState.REFUSED, refused_at=now - timedelta(minutes=91),
        reason="file [date=2026-11-20/part-3.parquet]: 14 rows have a NULL in key column [store_id]; nothing changed. "
        "Ask the producer for a new delivery.",
    )  # fmt: skip
    waits = arrival(122, now - timedelta(minutes=72), DeliveryState.WAITING)
    failure = replace(
        record(122, waits.arrived_at, 0),
        outcome=Outcome.FAILED,
        swapped_at=None,
        lag_s=None,
        cost=None,
        reason="ended before its swap; staging is loaded; check [new_share] failed",
    )
    return replace(
        index,
        feed="store_visits",
        description="Visitors, revenue and baskets of each store under each campaign.",
        arrivals=(*index.arrivals, refused, waits),
        failures=(failure,),
        checks=(*index.checks, checks(122, fails=True)),
        stopped=IndexStopped(
            delivery(122),
            failure.dag_id,
            failure.run_id,
            tuple(v for v in checks(122, fails=True).verdicts if v.level == "fail"),
            is_before_dedup=False,
        ),
        excluded=(delivery(90),),
        audit=IndexAudit((now.date(),), now.date(), 120, "unequal", now - timedelta(hours=1)),
    )


def empty(now: datetime = NOW) -> Index:
    """A feed in which nothing was ever published."""
    return make_index(0, 0, now=now, feed="worked_example", expected=None, time_travel=None, audit=None)


def verdict(
    feed: str, status: FreshnessStatus = FreshnessStatus.FRESH, now: datetime = NOW, **changes: Any
) -> FreshnessVerdict:
    """The verdict of a check 40 seconds before `now`, by a watchdog that checks every five minutes."""
    expected = [now - timedelta(hours=4 * place, minutes=84) for place in range(5)]
    values: dict[str, Any] = {
        "readers_see": "snapshot 2120 (generation 120)",
        "incidents": (),
        "next_expected_at": now + timedelta(minutes=156),
        "check_interval_s": 300.0,
        "expected_today": tuple(ExpectedTime(at, ExpectedTimeState.MET) for at in sorted(expected)),
        **changes,
    }
    checked_at = now - timedelta(seconds=40)
    return FreshnessVerdict(feed, status, checked_at=checked_at, **values)


def invalid_feed_file(feed: str, now: datetime = NOW) -> FreshnessVerdict:
    """The verdict of a feed whose file is invalid and to which nothing was ever delivered."""
    found = Incident(
        IncidentKind.STOPPED,
        Severity.ALERT,
        now - timedelta(minutes=8),
        f"the file of feed [{feed}] is invalid: no delivery is registered and nothing is published. Line 3: no [keys].",
        "correct the file and deploy it; deliveries that have landed meanwhile are found.",
        "feed_file_invalid",
        "no table yet: nothing was published",
    )
    return verdict(
        feed,
        FreshnessStatus.STOPPED,
        now,
        readers_see="no table yet: nothing was published",
        incidents=(found,),
        runbook="https://example.org/runbook.md",
        check_interval_s=3600.0,
    )


def verdicts(now: datetime = NOW) -> tuple[FreshnessVerdict, ...]:
    """The verdicts on `fresh`, `late` and `empty`, by an hourly watchdog, so that they stay valid in a slow test."""
    missed = Incident(
        IncidentKind.LATE,
        Severity.ALERT,
        now - timedelta(minutes=12),
        f"snapshot 2122 arrived {now - timedelta(minutes=72):%Y-%m-%d %H:%M:%S} UTC, 72 min ago, and is not live; the "
        f"freshness SLA is 60 min. The last attempt failed: ended before its swap; staging is loaded; check "
        f"[new_share] failed. No run holds the lease.",
        "open the publish run that is running (or failed) and read the log of its last task.",
        readers_see="snapshot 2120",
        dag_id="product_attributes_publish",
        run_id="publish__2122__1795000000000122",
    )
    refused = Incident(
        IncidentKind.REFUSED,
        Severity.ALERT,
        now - timedelta(minutes=91),
        "delivery [2121-1795000000000121] was refused: file [date=2026-11-20/part-3.parquet]: 14 rows "
        "have a NULL in key column [store_id]; nothing changed. Ask the producer for a new delivery.",
        "tell the producer; a corrected delivery of the snapshot, or the next one, is published.",
        "2121-1795000000000121",
        "snapshot 2120",
    )
    return (
        verdict("product_attributes", now=now, check_interval_s=3600.0),
        verdict(
            "store_visits",
            FreshnessStatus.LATE,
            now,
            waiting=1,
            incidents=(missed, refused),
            runbook="https://example.org/runbook.md",
            check_interval_s=3600.0,
        ),
        verdict(
            "worked_example",
            FreshnessStatus.EMPTY,
            now,
            readers_see="no table yet: nothing was published",
            next_expected_at=None,
            check_interval_s=3600.0,
        ),
    )
