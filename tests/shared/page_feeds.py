"""Generates the records of three feeds, and the watchdog's verdicts on them, for tests of the page Snapshots."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dedup_clone.checks.check_result import CheckResult, CheckResults, Level
from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import DateEntry, DateOutcome, Manifest
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.freshness.incident import Incident, IncidentKind, Severity
from dedup_clone.freshness.verdict import ExpectedTime, ExpectedTimeState, FeedFile, FreshnessStatus, FreshnessVerdict
from dedup_clone.page.feed_reader import (
    ATTEMPTS_WITH_CHECKS,
    DELIVERIES_LISTED,
    DeliveryState,
    FeedRecords,
    ListedDelivery,
)
from dedup_clone.publish.held_deliveries import HeldDelivery, StoppedPublish
from dedup_clone.state.audits import AuditRecord, Audits, PartitionComparison
from dedup_clone.state.ledger import RECENT_ATTEMPTS, Cost, LedgerRecord, Outcome, Stage
from testkit.table_contracts import PRODUCTS
from tests.shared import freshness_states

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)
# The table of docs/costs-and-limits.md, of which docs/operate.md shows a picture.
ROWS = 312_500_000_000
DATES = 730
DAY_ROWS = ROWS // DATES
TABLE_BYTES = 15e12
FILES = 8  # of a delivery
NEWEST_AGE = timedelta(minutes=78)  # since the newest delivery arrived


def delivery(number: int) -> Delivery:
    return Delivery(2000 + number, 1_795_000_000_000_000 + number)


def record(number: int, arrived_at: datetime, lag_s: float, **changes: Any) -> LedgerRecord:
    rows = ROWS
    values: dict[str, Any] = {
        "feed": "product_attributes",
        "deliveries": (delivery(number),),
        "generation": number,
        "parent": number - 1 or None,
        "attempt": f"{number:08d}-a1b2c3",
        "dag_id": "product_attributes_publish",
        "run_id": f"publish__{delivery(number).snapshot_id}__{delivery(number).marker_generation}",
        "arrived_at": arrived_at,
        "swapped_at": arrived_at + timedelta(seconds=lag_s),
        "lag_s": lag_s,
        "rows": rows,
        "new_rows": rows // 2000 + number * 7919 % 100 * 10**6,
        "changed_rows": rows // 1000 + number * 104_729 % 100 * 10**6,
        "kept_rows": rows // 3000,
        "cluster_overlap": 0.25 if number % 2 else None,
        "shares": {"new_share": 0.0005, "survivor_share": 0.0003, "changed_share": 0.001},
        "phases": {"until_lease": 5.0, "dedup": lag_s / 2, "load": lag_s / 3, "swap": 1.0},
        "cost": Cost(2 * 10**7, 0.0002, 241.6, 170.5, spark_usd=5.14),
    }
    return freshness_states.record(delivery(number).snapshot_id, **{**values, **changes})


def arrival(
    number: int, arrived_at: datetime, state: DeliveryState = DeliveryState.PUBLISHED, refusal: str = ""
) -> ListedDelivery:
    """`refusal`: why the delivery was refused."""
    return ListedDelivery(delivery(number), arrived_at, FILES, int(TABLE_BYTES), state, refusal)


def checks(*, fails: bool = False) -> tuple[CheckResults, ...]:
    share = (Level.FAIL, f"12,912,500,000 of {ROWS:,} rows new (4.1320%)") if fails else (Level.PASS, "0.0500%")
    before = (
        CheckResult("staging_rows", Level.PASS, "730 of 730 as in the manifest", "every partition"),
        CheckResult(
            "new_share", *share, "at most 20.00% as configured and 1.00% as usual",
            "look at the snapshot with its producer; if it is right, replay and accept [new_share]." if fails else "",
        ),
        CheckResult("duplicate_keys", Level.WARN, "12 surplus rows", "none", "ask the producer."),
    )  # fmt: skip
    after = (CheckResult("clone_of_staging", Level.PASS, "of staging at T", "the same"),)
    phases = (CheckResults("before", before), CheckResults("after", after))
    return phases[:1] if fails else phases


def manifest(feed: str, generation: int, dates: tuple[DateEntry, ...], **changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "feed": feed,
        "kind": Kind.PUBLISH,
        "generation": generation,
        "parent": generation - 1 or None,
        "restores": None,
        "engine": Engine.SPARK,
        "table": replace(PRODUCTS, retention_days=730),
        "update_id_mode": UpdateIdMode.LAST_SEEN,
        "retention_day": date(2024, 11, 22),
        "data_folder": f"gs://state/{feed}/data/{generation}/",
        "file_list_digest": "digest",
        "deliveries": tuple(delivery(number) for number in range(1, generation + 1)),
        "excluded": (),
        "applied": (delivery(generation),),
        "code_version": "1.0.0",
        "run_id": "run",
        "attempt": f"{generation:08d}-a1b2c3",
        "created_at": NOW,
        "dropped_rows": 0,
        "dates": dates,
    }
    return Manifest(**{**values, **changes})


def make_feed(
    publishes: int = 120, dates: int = DATES, now: datetime = NOW, feed: str = "product_attributes", **changes: Any
) -> FeedRecords:
    """The records of a feed with six arrivals a day, whose newest delivery arrived 78 minutes before `now`.

    `publishes`, `dates`: their numbers. `changes`: other values of the records' fields.
    """
    chance = random.Random(7)
    newest = now - NEWEST_AGE
    moments = [newest - timedelta(hours=4 * (publishes - number)) for number in range(1, publishes + 1)]
    attempts = tuple(
        record(number, at, chance.uniform(21, 41) * 60 if number % 37 else 68 * 60, feed=feed)
        for number, at in enumerate(moments, 1)
    )
    today = now.date()
    entries = tuple(
        entry(today - timedelta(days=days), int(DAY_ROWS * chance.uniform(0.7, 1.2)), chance.randrange(90_000))
        for days in reversed(range(dates))
    )
    audited = PartitionComparison(DAY_ROWS, DAY_ROWS, 0, 0)
    audit = AuditRecord(today - timedelta(days=33), publishes, now - timedelta(hours=9), audited)
    file = FeedFile(
        description="Value of each attribute of each product in each store, by day.",
        owner="data-platform",
        target=f"local-dev.warehouse.{feed}",
        landing_folder="gs://landing/shop/attributes/",
        landing_files="date=YYYY-MM-DD/*.parquet",
        marker="_SUCCESS",
        retention_days=730,
        sla_minutes=60,
        time_travel_hours=168.0,
        staging_created_at=now - timedelta(days=200),
    )
    values: dict[str, Any] = {
        "live": manifest(feed, publishes, entries) if publishes else None,
        "attempts": attempts[-RECENT_ATTEMPTS:],
        "deliveries": tuple(arrival(number, at) for number, at in enumerate(moments, 1))[-DELIVERIES_LISTED:],
        "results": {r.attempt: checks() for r in attempts[-ATTEMPTS_WITH_CHECKS:]},
        "audits": Audits(today, {}, (audit,)) if publishes else None,
        **changes,
    }
    return FeedRecords(verdict(feed, now=now, feed_file=file), **values)


def feed_file(records: FeedRecords) -> FeedFile:
    assert records.verdict.feed_file is not None
    return records.verdict.feed_file


def with_feed_file(records: FeedRecords, **changes: Any) -> FeedRecords:
    """The records with other values of the fields of the feed's file."""
    return replace(records, verdict=replace(records.verdict, feed_file=replace(feed_file(records), **changes)))


def entry(day: date, rows: int, survivors: int) -> DateEntry:
    return DateEntry(day, rows, 0, 0, survivors, 0, DateOutcome.ADOPT, "", 1, 1, None, None, "")


def fresh(now: datetime = NOW) -> FeedRecords:
    """A feed in which nothing is wrong."""
    return make_feed(now=now)


def late(now: datetime = NOW, feed: str = "store_visits", *, is_held: bool = False) -> FeedRecords:
    """A feed in which a delivery was refused, and the next one failed its check and waits for longer than the SLA.

    `is_held`: that one does not wait, but is held.
    """
    before = make_feed(now=now - timedelta(hours=3), feed=feed)
    assert before.live is not None
    reason = (
        "file [date=2026-11-20/part-3.parquet]: 14 rows have a NULL in key column [store_id]; nothing changed. "
        "Ask the producer for a new delivery."
    )
    refused = arrival(121, now - timedelta(minutes=100), DeliveryState.REFUSED, reason)
    state = DeliveryState.HELD if is_held else DeliveryState.WAITING
    waits = arrival(122, now - timedelta(minutes=72), state)
    failure = replace(
        record(122, waits.arrived_at, 0, feed=feed),
        outcome=Outcome.FAILED,
        stage=Stage.CHECK,
        swapped_at=None,
        lag_s=None,
        cost=None,
        reason="ended before its swap; staging is loaded; check [new_share] failed",
    )
    results, run = checks(fails=True), (failure.dag_id, failure.run_id)
    failed = tuple(result for result in results[0].items if result.level is Level.FAIL)
    stopped = StoppedPublish((delivery(122),), *run, failed, 120, failure.attempt)
    held = HeldDelivery(delivery(122), now, stopped)
    unequal = PartitionComparison(DAY_ROWS, DAY_ROWS, 1, 1)
    audit = AuditRecord(now.date(), 120, now - timedelta(hours=1), unequal)
    file = replace(feed_file(before), description="Visitors, revenue and baskets of each store under each campaign.")
    found = verdict(feed, FreshnessStatus.LATE, now, waiting=1, feed_file=file)
    return replace(
        before,
        verdict=replace(found, held=(held,)) if is_held else replace(found, stopped=stopped),
        live=replace(before.live, excluded=(delivery(90),), deliveries=_without(before.live.deliveries, delivery(90))),
        deliveries=tuple(
            replace(a, state=DeliveryState.EXCLUDED) if a.delivery == delivery(90) else a
            for a in (*before.deliveries[-(DELIVERIES_LISTED - 2) :], refused, waits)
        ),
        attempts=(*before.attempts[-(RECENT_ATTEMPTS - 2) :], failure),
        results={**dict([*before.results.items()][-(ATTEMPTS_WITH_CHECKS - 1) :]), failure.attempt: results},
        audits=Audits(now.date(), {}, (audit,)),
    )


def _without(deliveries: tuple[Delivery, ...], excluded: Delivery) -> tuple[Delivery, ...]:
    return tuple(found for found in deliveries if found != excluded)


def empty(now: datetime = NOW) -> FeedRecords:
    """A feed in which nothing was ever published."""
    records = make_feed(0, 0, now, "worked_example")
    found = replace(records, verdict=replace(records.verdict, expected=()))
    return with_feed_file(found, staging_created_at=None)


def verdict(
    feed: str, status: FreshnessStatus = FreshnessStatus.FRESH, now: datetime = NOW, **changes: Any
) -> FreshnessVerdict:
    """The verdict of a check 40 seconds before `now`."""
    expected = [now + timedelta(hours=4 * place, minutes=-84) for place in range(-5, 6)]
    values: dict[str, Any] = {
        "readers_see": "snapshot 2120 (generation 120)",
        "incidents": (),
        "checked_at": now - timedelta(seconds=40),
        "expected": tuple(
            ExpectedTime(at, ExpectedTimeState.MET if at <= now else ExpectedTimeState.PENDING) for at in expected
        ),
        **changes,
    }
    return FreshnessVerdict(feed, status, **values)


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
        checked_at=now + timedelta(hours=1),
    )


def verdicts(now: datetime = NOW) -> tuple[FreshnessVerdict, ...]:
    """The verdicts on `fresh`, `late` and `empty`, of a check an hour later, so that they stay valid in a slow test."""
    later = {"checked_at": now + timedelta(hours=1)}
    missed = Incident(
        IncidentKind.LATE,
        Severity.ALERT,
        now - timedelta(minutes=12),
        f"snapshot 2122 arrived {now - timedelta(minutes=72):%Y-%m-%d %H:%M:%S} UTC, 72 min ago, and is not live; the "
        f"freshness SLA is 60 min. The last attempt failed: ended before its swap; staging is loaded; check "
        f"[new_share] failed. No run holds the lease.",
        "open the publish run that is running (or failed) and read the log of its last task.",
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
        verdict("product_attributes", now=now, **later),
        verdict(
            "store_visits",
            FreshnessStatus.LATE,
            now,
            waiting=1,
            incidents=(missed, refused),
            runbook="https://example.org/runbook.md",
            **later,
        ),
        verdict(
            "worked_example",
            FreshnessStatus.EMPTY,
            now,
            readers_see="no table yet: nothing was published",
            expected=(),
            **later,
        ),
    )
