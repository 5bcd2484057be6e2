"""Deliveries that are refused before Spark starts: by names, sizes and footers of their files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Blob
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import DeliveryRefused
from testkit import deliveries
from testkit.dedup_job import SCHEMA, parquet_bytes
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row
from tests.contract.publish.existing_tables import column, with_columns
from tests.shared.bad_deliveries import CASES
from tests.shared.typed_deliveries import TYPED, with_row

PART = f"date={TODAY}/part-0.parquet"
GOOD = parquet_bytes([row(8, 1)])
WITHOUT_VALUE = parquet_bytes([row(8, 1)], SCHEMA.remove(SCHEMA.get_field_index("attr_value")))


class NoSpark:
    def run(self, request_uri: str) -> NoReturn:
        raise AssertionError(f"Spark must not start on [{request_uri}]")


def refuse(world: FeedOnStandIn, name: str, **changes: Any) -> str:
    with pytest.raises(DeliveryRefused, match="Every delivery was refused; target is unchanged") as raised:
        world.resolve(name, **changes)
    return str(raised.value)


def test_what_names_sizes_and_footers_show_is_refused_before_spark(clients: tuple[Storage, BigQuery]) -> None:
    """Of the other bad deliveries the Spark job refuses the same ones, with the same faults."""
    world = FeedAgainstOracle(clients, feed_with_table(TYPED))
    world.dedup = NoSpark()
    for number, case in enumerate((case for case in CASES if case.early), start=1):
        message = refuse(world, world.land_files(number, case.make(number)))
        assert [text for text in case.said if text not in message] == [], (case.name, message)
        assert f"deliver snapshot [{number}] again, the marker last" in message
    attempt = world.resolve(world.land_files(900, with_row(code=None)(900)))
    assert attempt.snapshot_id == 900


def test_a_refusal_is_recorded_told_once_and_a_corrected_delivery_published(world: FeedOnStandIn) -> None:
    name = world.land_files(8, {f"date={TODAY}/part-1.parquet": GOOD, PART: WITHOUT_VALUE})
    shown = deliveries.dry_run_of(world, name)
    message = refuse(world, name)
    place = f"file [gs://landing/{world.feed.landing.prefix}/snapshot_id=8/{PART}] column [attr_value] is missing"
    assert place in message
    assert f"**Would be refused**: {place}" in shown
    services = world.services
    (delivery,) = services.arrivals.lists().refused
    assert world.state.read(f"refused/{name}.json")["reason"] in message
    with pytest.raises(DeliveryRefused, match="was refused and set aside"):
        world.resolve(name)
    (record,) = services.ledger.recent(9)
    assert (record.outcome, record.deliveries, services.current.read().intent) == ("refused", (delivery,), None)
    world.publish(world.land(8, [row(8, 1)]))
    assert world.rows() == expected(row(8, 1))


def test_other_deliveries_are_published_by_the_run_of_a_refused_one(world: FeedOnStandIn) -> None:
    world.land(7, [row(7, 1)])
    bad = [world.land_files(number, {PART: b""}) for number in (8, 9)]
    attempt = world.resolve(bad[1])
    assert attempt.snapshot_id == 7
    assert world.state.deliveries("refused") == bad
    world.deduplicate(attempt)
    world.load(attempt)
    world.swap(attempt, world.check(attempt))
    world.commit(attempt)
    assert world.rows() == expected(row(7, 1))


def test_only_the_newest_deliveries_are_examined_because_spark_starts_with_a_good_one(world: FeedOnStandIn) -> None:
    bad, good_one = world.land_files(8, {PART: b""}), world.land(9, [row(9, 1)])
    assert world.resolve(good_one).snapshot_id == 9
    assert bad not in world.state.deliveries("refused")


@pytest.fixture
def footers_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the objects whose footers were read."""
    names_read, open_object = [], Blob.open

    def recorded(blob: Blob, *arguments: Any, **options: Any) -> Any:
        names_read.append(blob.name)
        return open_object(blob, *arguments, **options)

    monkeypatch.setattr(Blob, "open", recorded)
    return names_read


def test_few_footers_of_a_delivery_of_many_files_are_read(world: FeedOnStandIn, footers_read: list[str]) -> None:
    files = {f"date={TODAY}/part-{number:03}.parquet": GOOD for number in range(91)}
    world.resolve(world.land_files(8, files))
    assert len(set(footers_read)) == 32
    assert min(footers_read).endswith("part-000.parquet")
    assert max(footers_read).endswith("part-088.parquet")


def replay_of_a_published_one(world: FeedOnStandIn) -> dict[str, Any]:
    world.publish(world.land(8, [row(8, 1)]))
    return {"replay": True, "reason": "once more", "run_id": "replay"}


@pytest.mark.parametrize(
    "prepare", [replay_of_a_published_one, lambda world: {"engine": Engine.BIGQUERY}], ids=["replay", "sql"]
)
def test_no_footer_is_read_where_the_dedup_may_not_read_the_files_or_does_so_at_once(
    world: FeedOnStandIn, footers_read: list[str], prepare: Callable[[FeedOnStandIn], dict[str, Any]]
) -> None:
    changes = prepare(world)
    footers_read.clear()
    names = [delivery.name for delivery in world.services.arrivals.deliveries()] or [world.land_files(8, {PART: b""})]
    world.resolve(names[0], **changes)
    assert footers_read == []
    assert world.state.deliveries("refused") == []


def test_a_file_that_is_gone_or_was_replaced_is_left_to_the_job(world: FeedOnStandIn) -> None:
    name = world.land_files(8, {PART: GOOD, f"date={TODAY}/part-1.parquet": GOOD})
    world.overwrite(8, PART, b"x")
    folder = f"{world.feed.landing.prefix}/snapshot_id=8"
    world.storage.bucket("landing").blob(f"{folder}/date={TODAY}/part-1.parquet").delete()
    attempt = world.resolve(name)
    assert world.services.current.require_intent(attempt.id)
    assert world.state.deliveries("refused") == []


def test_a_column_may_be_missing_in_snapshots_from_before_it_was_delivered(world: FeedOnStandIn) -> None:
    world.feed = with_columns(world.feed, attr_value=column("attr_value", "INT64", since=9))
    assert "column [attr_value] is missing" in refuse(world, world.land_files(9, {PART: WITHOUT_VALUE}))
    world.resolve(world.land_files(8, {PART: WITHOUT_VALUE}))
