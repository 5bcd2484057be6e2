"""What runs compute without asking anybody: dates, costs, phases, loads, and tables to refuse."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import Column, PartitionBy, TableContract
from dedup_clone.operations.takeover import partition_problems, table_problems
from dedup_clone.publish.date_ranges import format_dates, parse_dates
from dedup_clone.publish.ledger_record import divide_into_phases
from dedup_clone.publish.parent_generation import without_expired
from dedup_clone.publish.publish_costs import cost_of, merge_and_qualify_bytes
from dedup_clone.settings.feed import read_feed
from dedup_clone.state.ledger import count_loads
from dedup_clone.state.manifests import StreamedChanges
from dedup_clone.warehouse.metadata import JobMetadata, PartitionMetadata, StreamingBuffer, TableMetadata
from testkit.feed_on_stand_in import REPOSITORY
from testkit.table_contracts import PRODUCTS
from tests.shared import freshness_states
from tests.shared.freshness_states import record
from tests.unit.checks.builders import entry, manifest, observation

TIB, GIB, USD_PER_TIB, LEAST_BILLED = 1 << 40, 1 << 30, 6.25, 10 << 20


# -- Dates --


def test_of_expired_dates_the_rows_that_the_table_has_are_left_and_dates_without_rows_stay() -> None:
    first, second, third, fourth, fifth = (date(2026, 1, day) for day in range(1, 6))
    rows = {first: 10, second: 10, third: 10, fourth: 0, fifth: 10}
    held = manifest(*(entry(day, count) for day, count in rows.items()))
    by_hour = replace(held, table=replace(held.table, partition_by=PartitionBy.HOUR))
    seen = observation(*(PartitionMetadata(hour, 4, NOW) for hour in ("2026010205", "2026010506", "2026010523")))
    expired = {first, second, fourth, fifth}
    left = {found.date: found.rows for found in without_expired(by_hour, seen, expired).dates}
    assert left == {second: 4, third: 10, fourth: 0, fifth: 8}
    left = {found.date: found.rows for found in without_expired(held, seen, expired).dates}
    assert left == {second: 10, third: 10, fourth: 0, fifth: 10}, "a day expires whole"


def test_ranges_and_single_dates_give_each_date_once_ascending() -> None:
    found = parse_dates(["2026-02-27..2026-03-01", "2026-01-05", " 2026-02-28 "])
    assert found == (date(2026, 1, 5), date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, "write") for text in ("yesterday", "2026-02-30", "2026-01-01..", "..2026-01-01", "2026-01-01..soon")),
        ("", "write"),
        ("2026-01-02..2026-01-01", "is no range of dates"),
        ("0001-01-01..9999-12-31", "is no range of dates"),
    ],
)
def test_a_text_that_names_no_dates_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        parse_dates([text])


def test_neighbouring_dates_are_shown_as_a_range_and_many_ranges_are_counted() -> None:
    days = [date(2026, 1, 31), date(2026, 2, 1), date(2026, 2, 3), date(2026, 1, 30)]
    assert format_dates(days) == "2026-01-30..2026-02-01, 2026-02-03"
    assert format_dates([]) == "none"
    many = [date(2026, month, day) for month in range(1, 5) for day in (1, 10, 20)]
    assert format_dates(many).endswith(" and 2 more ranges")


# -- Costs --


def job(kind: str, billed: int) -> JobMetadata:
    none: dict[str, Any] = dict.fromkeys(("error", "created_at", "started_at", "ended_at"))
    return JobMetadata("id", kind, True, *none.values(), bytes_billed=billed)


def test_queries_are_billed_and_load_jobs_are_not() -> None:
    found = cost_of([job("query", 2 * TIB), job("load", 0), job("query", TIB)], checks_billed=TIB)
    assert found.query_bytes_billed == 4 * TIB
    assert found.query_usd == pytest.approx(4 * USD_PER_TIB)


def test_streamed_rows_are_charged_and_the_whole_table_is_read_to_apply_them() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    streamed = StreamedChanges(10, 4 * GIB, moment, moment, moment)
    found = cost_of([], checks_billed=0, streamed=streamed, table_bytes=3 * TIB)
    assert (found.query_bytes_billed, found.streamed_bytes) == (0, 4 * GIB)
    assert found.stream_usd == pytest.approx(4 * 0.025 + 3 * USD_PER_TIB)
    assert found.total_usd == pytest.approx(found.query_usd + found.stream_usd)


def test_alternatives_are_charged_for_the_table_as_often_as_they_touch_it() -> None:
    """QUALIFY reads target and snapshot; MERGE reads the keys and is charged for the partitions that it updates."""
    merge, qualify = merge_and_qualify_bytes(PRODUCTS, 48, delivered=TIB / 48, existing=TIB / 48)
    assert qualify == pytest.approx(2 * TIB)
    assert merge == pytest.approx((2 + 5 / 6) * TIB)
    tiny = merge_and_qualify_bytes(PRODUCTS, 48, delivered=2, existing=2)  # at least 10 MB of each of two tables
    assert tiny == (2 * LEAST_BILLED, 2 * LEAST_BILLED)
    columns = (Column("day", "DATE"), Column("id", "INT64"), Column("version", "INT64"), Column("text", "STRING"))
    wide = TableContract(columns, "day", "version", ("day", "id"), (), 730)
    merge, qualify = merge_and_qualify_bytes(wide, 2400, delivered=0, existing=GIB)
    assert merge - qualify == pytest.approx(24 * GIB, rel=0.001)


# -- Phases --


def at(second: float) -> datetime:
    return datetime(2026, 11, 21, 12, tzinfo=UTC) + timedelta(seconds=second)


@pytest.mark.parametrize(
    ("ends", "pending", "phases"),
    [
        ({"until_lease": at(5), "dedup": at(20), "swap": at(21)}, [], {"until_lease": 5, "dedup": 15, "swap": 1}),
        ({"task_start": None, "dedup": at(20), "swap": at(21)}, [], {"dedup": 20, "swap": 1}),
        (  # clocks that differ give no negative phase
            {"until_lease": at(5), "dedup": at(4), "load": at(30), "swap": at(21)},
            [],
            {"until_lease": 5, "dedup": 0, "load": 16, "swap": 0},
        ),
        (  # the time in which jobs were pending is counted once
            {"dedup": at(14), "load": at(18), "swap": at(21)},
            [(at(8), at(14)), (at(12), at(16)), (at(19), at(30)), (at(-5), at(-1))],
            {"dedup": 8, "load": 2, "swap": 1, "queued": 10},
        ),
    ],
    ids=["in order", "not recorded", "clocks", "pending"],
)
def test_phases_add_up_to_the_lag(ends: Any, pending: Any, phases: dict[str, float]) -> None:
    found = divide_into_phases(at(0), ends, pending, until=at(21))
    assert found == {"queued": 0.0, **phases}
    assert sum(found.values()) == 21


# -- The ledger --


@pytest.mark.parametrize(
    ("steps", "loads"),
    [
        ([], 0),
        (["copy-1", "swap-1"], 0),
        (["load-1", "load-2", "swap-1"], 2),
        (["load-1", "replace-1"], 2),
        (["load_20260131-1", "load_20260201-1"], 1),
    ],
)
def test_loads_of_single_dates_count_as_one_and_a_replacement_as_one_more(steps: list[str], loads: int) -> None:
    assert count_loads(f"dedup_clone-load_events-00000001-abcdef-{step}" for step in steps) == loads


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"parent": None}, False),
        ({"lag_s": None}, False),
    ],
    ids=["a publish", "the first publish", "a replay, a failed attempt, or of another kind"],
)
def test_only_publishes_of_new_deliveries_on_a_parent_have_usual_shares(changes: dict[str, Any], counts: bool) -> None:
    assert record(8, **{"parent": 7, **changes}).has_usual_shares is counts


NOW = datetime(2026, 6, 15, tzinfo=UTC)
FEED = read_feed(REPOSITORY / "dags" / "feeds" / "worked_example.yaml")
COLUMNS = FEED.table.to_contract().columns


def services(*, row_policies: tuple[str, ...] = (), views: tuple[str, ...] = ()) -> Any:
    warehouse = SimpleNamespace(
        location="EU",
        table=lambda name: None,
        policies=lambda name: SimpleNamespace(row_access=row_policies),
        materialized_views_of=lambda name: list(views),
    )
    return SimpleNamespace(feed=FEED, warehouse=warehouse, now=lambda: NOW)


OURS: dict[str, Any] = {
    **{"columns": COLUMNS, "location": "eu", "granularity": "DAY", "cluster_by": FEED.table.cluster_by, "labels": {}},
    **{"clone_of": None, "clone_time": None},
}


def table(**changes: Any) -> TableMetadata:
    return freshness_states.table(**{**OURS, **changes})


def retyped(name: str, kind: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) if column.name == name else column for column in COLUMNS)


PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "a view": ({"kind": "VIEW"}, "[VIEW]"),
    "elsewhere": ({"location": "US"}, "[US]"),
    "a partition a month": ({"granularity": "MONTH"}, "partitioned by date and month"),
    "no partitions": ({"partition_column": None, "granularity": None}, "partitioned by nothing"),
    "clustered otherwise": ({"cluster_by": ("attr_value",)}, "clustered by attr_value, expected"),
    "a column too many": ({"columns": (*COLUMNS, Column("note", "STRING"))}, "[note] is not in the feed's file"),
    "a column too few": ({"columns": COLUMNS[:-1]}, f"[{COLUMNS[-1].name}] is missing"),
    "another type": ({"columns": retyped("attr_value", "STRING")}, "[attr_value] is STRING, expected INT64"),
    "digits would be lost": ({"columns": retyped("attr_value", "FLOAT64")}, "FLOAT64 columns [attr_value]"),
    "streamed rows": ({"streaming_buffer": StreamingBuffer(3, None)}, "about 3 streamed rows"),
    "records are lost": ({"labels": {"dedup_clone_generation": "3"}}, "deploy recover"),
    "a label": ({"options": {"label [team]": "stores"}}, "team"),
    "a tag of a nested column": ({"options": {"policy tag of column [shop.owner]": "t"}}, "shop.owner"),
    "expires": ({"expires_at": NOW}, "expires 2026-06-15"),
}


@pytest.mark.parametrize(("changes", "words"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_a_table_that_cannot_be_taken_over_is_refused(changes: dict[str, Any], words: str) -> None:
    assert table_problems(services(), table()) == []
    problems = table_problems(services(), table(**changes))
    assert any(words in problem for problem in problems), problems


def test_what_the_replaced_table_would_lose_is_a_problem() -> None:
    for lost in (services(row_policies=("own",)), services(views=("daily",))):
        assert len(table_problems(lost, table())) == 1


@pytest.mark.parametrize(
    ("partition", "is_refused"),
    [("__NULL__", True), ("__UNPARTITIONED__", True), ("20260617", True), ("20260616", False)],
)
def test_rows_without_a_date_and_of_the_future_are_refused(partition: str, is_refused: bool) -> None:
    observed: Any = SimpleNamespace(partitions=[SimpleNamespace(partition_id=partition, rows=2)])
    problems = partition_problems(services(), observed, date(2026, 6, 16))
    assert [partition in problem for problem in problems] == [True] * is_refused
