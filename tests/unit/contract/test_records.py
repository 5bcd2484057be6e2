"""Records travel as canonical JSON and are read strictly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import ClassVar

import pytest

from dedup_clone import __version__
from dedup_clone.contract import records
from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.errors import ContractViolation, LaterRelease
from dedup_clone.contract.records import digest, from_json, record_digest, to_json, to_plain
from dedup_clone.contract.table import Column, ColumnMode, TableContract

ARRIVAL = Arrival(
    feed="f",
    delivery=Delivery(7, 11),
    bucket="landing",
    folder="f/snapshot_id=7/",
    marker="f/snapshot_id=7/_SUCCESS",
    arrived_at=datetime(2026, 11, 21, 4, 0, tzinfo=UTC),
    objects=(LandedObject("f/snapshot_id=7/a.parquet", 3, "x==", 10),),
    late_objects=(),
)


def test_arrival_has_this_exact_json() -> None:
    assert json.loads(to_json(ARRIVAL)) == {
        "arrived_at": "2026-11-21T04:00:00+00:00",
        "bucket": "landing",
        "delivery": {"marker_generation": 11, "snapshot_id": 7},
        "feed": "f",
        "format_version": 1,
        "folder": "f/snapshot_id=7/",
        "late_objects": [],
        "marker": "f/snapshot_id=7/_SUCCESS",
        "objects": [{"crc32c": "x==", "generation": 3, "name": "f/snapshot_id=7/a.parquet", "size": 10}],
        "release": __version__,
    }


def test_a_record_read_back_equals_what_was_written() -> None:
    assert from_json(Arrival, to_json(ARRIVAL), where="arrival") == ARRIVAL


def test_nested_columns_are_read_back() -> None:
    table = TableContract(
        columns=(Column("d", "DATE"), Column("s", "STRUCT", ColumnMode.REPEATED, (Column("x", "INT64"),))),
        partition_column="d",
        snapshot_id_column="u",
        keys=("d",),
        cluster_by=(),
        retention_days=2,
    )
    assert from_json(TableContract, to_json(table), where="table") == table


@dataclass(frozen=True)
class Keyed:
    by_day: dict[date, int]
    by_number: dict[int, str]
    names: frozenset[str]


def test_keys_of_objects_and_sets_are_read_back() -> None:
    keyed = Keyed({date(2026, 3, 1): 2}, {7: "a"}, frozenset({"y", "x"}))
    assert from_json(Keyed, to_json(keyed), where="keyed") == keyed
    assert json.loads(to_json(keyed))["names"] == ["x", "y"]
    with pytest.raises(ContractViolation, match="a number as key"):
        from_json(Keyed, to_json(keyed).replace('"7"', '"seven"'), where="keyed")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"surprise": 1}, "surprise"),
        ({"bucket": None}, r"arrival\.bucket"),
        ({"bucket": 5}, r"arrival\.bucket"),
        ({"arrived_at": "yesterday"}, r"arrival\.arrived_at"),
        ({"objects": [{"name": "a"}]}, r"arrival\.objects\[0\]"),
        ({"delivery": {"snapshot_id": True, "marker_generation": 1}}, "snapshot_id"),
    ],
)
def test_a_record_of_another_form_is_refused_by_field(change: dict[str, object], named: str) -> None:
    plain = {**json.loads(to_json(ARRIVAL)), **change}
    with pytest.raises(ContractViolation, match=named):
        from_json(Arrival, json.dumps(plain), where="arrival")


def test_fields_that_were_removed_renamed_or_added_are_read_from_older_records() -> None:
    @dataclass(frozen=True)
    class Record:
        FORMER_FIELDS: ClassVar[frozenset[str]] = frozenset({"old"})
        STORED_NAMES: ClassVar[dict[str, str]] = {"name": "title"}
        name: str
        added: str | None = None

    for stored in ({"title": "a"}, {"title": "a", "old": 1}, {"title": "a", "added": None}):
        assert from_json(Record, json.dumps(stored), where="record") == Record("a")
    assert to_plain(Record("a")) == {"title": "a", "added": None}
    for stored, named in (
        ({}, "title"),
        ({"added": "b"}, "title"),
        ({"title": "a", "name": "b"}, "name"),
        ({"title": "a", "other": 1}, "other"),
    ):
        with pytest.raises(ContractViolation, match=named):
            from_json(Record, json.dumps(stored), where="record")


@pytest.mark.parametrize("change", [{"format_version": 2}, {"surprise": 1}, {"format_version": "x"}])
def test_a_record_of_a_later_release_says_which_release_reads_it(change: dict[str, object]) -> None:
    plain = {**json.loads(to_json(ARRIVAL)), "release": "7.0.1", **change}
    with pytest.raises(ContractViolation, match=r"deploy at least version \[7\.0\.1\]"):
        from_json(Arrival, json.dumps(plain), where="arrival")


@pytest.mark.parametrize(
    "change", [{"bucket": None}, {"arrived_at": "yesterday"}, {"objects": [{"name": "a"}]}, {"late_objects": {}}]
)
def test_what_this_release_cannot_read_is_damaged_unless_a_later_release_wrote_it(change: dict[str, object]) -> None:
    def read(release: str) -> None:
        plain = {**json.loads(to_json(ARRIVAL)), "release": release, **change}
        from_json(Arrival, json.dumps(plain), where="gs://state/f/CURRENT")

    with pytest.raises(LaterRelease, match=r"7\.0\.1"):
        read("7.0.1")
    for release in (__version__, "0.1.0", "", "unknown"):
        with pytest.raises(ContractViolation, match="damaged") as damaged:
            read(release)
        assert not isinstance(damaged.value, LaterRelease)


def test_releases_are_compared_as_numbers_and_a_development_version_comes_before_its_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = json.dumps({**json.loads(to_json(ARRIVAL)), "release": "0.10.0", "bucket": None})
    for own, is_later in (("0.9.1", True), ("0.10.0.dev0", True), ("0.10.0", False), ("0.11.0.dev0", False)):
        monkeypatch.setattr(records, "__version__", own)
        with pytest.raises(ContractViolation) as refused:
            from_json(Arrival, plain, where="arrival")
        assert isinstance(refused.value, LaterRelease) == is_later, own


def test_a_digest_does_not_depend_on_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    before = record_digest(ARRIVAL)
    text = to_json(ARRIVAL)
    monkeypatch.setattr(records, "__version__", "9.9.9")
    assert (record_digest(ARRIVAL), to_json(ARRIVAL) == text) == (before, False)


def test_text_that_is_no_json_is_refused_by_name() -> None:
    with pytest.raises(ContractViolation, match=r"gs://state/CURRENT\] is not JSON"):
        from_json(Arrival, "{", where="gs://state/CURRENT")


def test_digest_fits_a_label() -> None:
    assert len(digest("x")) == 32
    assert digest("x") != digest("y")


@pytest.mark.parametrize("name", ["7", "7-", "-7-1", "07-1", "7-0", "seven-1", "99999999999999999999-1"])
def test_a_wrong_delivery_name_is_refused(name: str) -> None:
    with pytest.raises(ContractViolation, match="no delivery name"):
        Delivery.parse(name)


def test_a_delivery_name_is_read_back() -> None:
    assert Delivery.parse(Delivery(7, 11).name) == Delivery(7, 11)
