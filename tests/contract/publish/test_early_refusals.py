"""Deliveries that are refused before Spark starts: by names, sizes and footers of their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.publish import early_refusals
from dedup_clone.publish.early_refusals import FOOTERS_READ
from dedup_clone.publish.previews.dry_run import dry_run
from dedup_clone.publish.resolve import resolve
from dedup_clone.state.ledger import Outcome
from dedup_spark.landing.file_validation import FileValidator, LandedFile
from testkit.fake_dedup_job import SCHEMA, parquet_bytes
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row

PART = f"date={TODAY}/part-0.parquet"
GOOD = parquet_bytes([row(8, 1)])
RENAMED = pa.schema([field.with_name("Attr_Value") if field.name == "attr_value" else field for field in SCHEMA])
TEXT = pa.schema([field.with_type(pa.string()) if field.name == "attr_value" else field for field in SCHEMA])

CASES = {
    "missing column": (
        parquet_bytes([row(8, 1)], SCHEMA.remove(4)),
        "column [attr_value] is missing, expected [INT64]",
    ),
    "undeclared column": (
        parquet_bytes([{**row(8, 1), "more": 1}], SCHEMA.append(pa.field("more", pa.int64()))),
        "column [more] is not declared in the feed file",
    ),
    "other case": (
        parquet_bytes([{**row(8, 1), "Attr_Value": 1}], RENAMED),
        "column [Attr_Value] is not declared in the feed file: only its case differs from [attr_value]",
    ),
    "other type": (
        parquet_bytes([{**row(8, 1), "attr_value": "x"}], TEXT),
        "column [attr_value] is [BYTE_ARRAY String], expected [INT64] (INT64 or INT32",
    ),
    "text file": (b"date,product_id\n", "cannot be read as Parquet: Parquet magic bytes not found"),
    "cut off": (GOOD[:-20], "it looks like a Parquet file without its end: upload it whole"),
    "empty": (b"", "is empty (0 bytes), expected a Parquet file"),
}


class NoSpark:
    def run(self, request_uri: str) -> NoReturn:
        raise AssertionError(f"Spark must not start on [{request_uri}]")


def refuse(world: FeedOnStandIn, name: str, **changes: Any) -> str:
    with pytest.raises(DeliveryRefused, match="Every delivery was refused; target is unchanged") as raised:
        resolve(world.services, world.publish_request(name, **changes))
    return str(raised.value)


@pytest.mark.parametrize(("content", "reason"), CASES.values(), ids=CASES)
def test_what_a_footer_shows_is_refused_before_spark_in_the_words_of_the_job(
    world: FeedOnStandIn, tmp_path: Path, content: bytes, reason: str
) -> None:
    world.dedup = NoSpark()
    name = world.land_files(8, {f"date={TODAY}/part-1.parquet": GOOD, PART: content})
    shown = dry_run(world.services, world.publish_request(name)).landed.problems
    assert any((reason if content else "cannot be read as Parquet") in problem for problem in shown)
    message = refuse(world, name)
    assert f"file [gs://landing/{world.feed.landing.prefix}/snapshot_id=8/{PART}] " in message
    assert reason in message
    assert "deliver snapshot [8] again, the marker last" in message
    services = world.services
    (delivery,) = services.arrivals.refused()
    refusal = services.arrivals.refusal(delivery)
    assert refusal
    assert refusal.reason in message
    (record,) = services.ledger.read_last(9)
    assert (record.outcome, record.deliveries, services.current.read().intent) == (Outcome.REFUSED, (delivery,), None)
    request = services.manifests.request(record.attempt)
    assert request
    landed = tmp_path / "part.parquet"
    landed.write_bytes(content)
    validation = FileValidator.from_request(request)(LandedFile(str(landed), len(content), 8, TODAY))
    problems = [problem.removeprefix(f"file [{landed}] ") for problem in validation.problems]
    assert problems
    assert [problem for problem in problems if problem not in message] == []


def test_a_name_that_is_no_data_file_s_is_refused_too(world: FeedOnStandIn) -> None:
    assert "is no data file" in refuse(world, world.land_files(8, {f"date={TODAY}/part-0.csv": b"1"}))


def test_a_refused_delivery_is_told_once_and_a_corrected_one_published(world: FeedOnStandIn) -> None:
    name = world.land_files(8, {PART: b""})
    refuse(world, name)
    with pytest.raises(DeliveryRefused, match="was refused and set aside"):
        resolve(world.services, world.publish_request(name))
    assert len(world.services.ledger.read_last(9)) == 1
    world.publish(world.land(8, [row(8, 1)]))
    assert world.rows() == expected(row(8, 1))


def test_other_deliveries_are_published_by_the_run_of_a_refused_one(world: FeedOnStandIn) -> None:
    world.land(7, [row(7, 1)])
    bad = [world.land_files(number, {PART: b""}) for number in (8, 9)]
    spec = world.resolve(bad[1])
    assert spec.snapshot_id == 7
    assert [delivery.name for delivery in world.services.arrivals.refused()] == bad
    world.deduplicate(spec)
    world.load(spec)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    assert world.rows() == expected(row(7, 1))


def test_only_the_newest_deliveries_are_examined_because_spark_starts_with_a_good_one(world: FeedOnStandIn) -> None:
    bad, good = world.land_files(8, {PART: b""}), world.land(9, [row(9, 1)])
    assert world.resolve(good).snapshot_id == 9
    assert bad not in [delivery.name for delivery in world.services.arrivals.refused()]


def test_few_footers_of_a_delivery_of_many_files_are_read(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, read_footers = [], early_refusals.read_footers

    def counted(store: Any, names: list[str]) -> Any:
        read.extend(names)
        return read_footers(store, names)

    monkeypatch.setattr(early_refusals, "read_footers", counted)
    files = {f"date={TODAY}/part-{number:03}.parquet": GOOD for number in range(3 * FOOTERS_READ - 5)}
    world.resolve(world.land_files(8, files))
    assert len(set(read)) == FOOTERS_READ
    assert read[0].endswith("part-000.parquet")
    assert read[-1].endswith("part-088.parquet")


def fail(*_: Any) -> NoReturn:
    raise AssertionError("no footer must be read")


def replay_of_a_published_one(world: FeedOnStandIn) -> dict[str, Any]:
    world.publish(world.land(8, [row(8, 1)]))
    return {"replay": True, "reason": "once more", "run_id": "replay"}


@pytest.mark.parametrize(
    "prepare", [replay_of_a_published_one, lambda world: {"engine": Engine.BIGQUERY}], ids=["replay", "sql"]
)
def test_no_footer_is_read_where_the_dedup_may_not_read_the_files_or_does_so_at_once(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[FeedOnStandIn], dict[str, Any]]
) -> None:
    changes = prepare(world)
    monkeypatch.setattr(early_refusals, "read_footers", fail)
    names = [delivery.name for delivery in world.services.arrivals.deliveries()] or [world.land_files(8, {PART: b""})]
    world.resolve(names[0], **changes)
    assert world.services.arrivals.refused() == []


def test_a_file_that_is_gone_or_was_replaced_is_left_to_the_job(world: FeedOnStandIn) -> None:
    name = world.land_files(8, {PART: GOOD, f"date={TODAY}/part-1.parquet": GOOD})
    world.overwrite(8, PART, b"x")
    folder = f"{world.feed.landing.prefix}/snapshot_id=8"
    world.storage.bucket("landing").blob(f"{folder}/date={TODAY}/part-1.parquet").delete()
    spec = world.resolve(name)
    assert world.services.current.require_intent(spec.attempt)
    assert world.services.arrivals.refused() == []


def test_a_column_may_be_missing_in_snapshots_from_before_it_was_delivered(world: FeedOnStandIn) -> None:
    columns = tuple(
        column.model_copy(update={"since": 9}) if column.name == "attr_value" else column
        for column in world.feed.table.columns
    )
    world.feed = world.feed.model_copy(update={"table": world.feed.table.model_copy(update={"columns": columns})})
    content = CASES["missing column"][0]
    late = world.land_files(9, {PART: content})
    assert "column [attr_value] is missing" in refuse(world, late)
    world.resolve(world.land_files(8, {PART: content}))
