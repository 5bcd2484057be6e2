"""Records travel as JSON, and each release reads those of every other one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import pytest

from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json, record_digest, to_json

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
        "folder": "f/snapshot_id=7/",
        "late_objects": [],
        "marker": "f/snapshot_id=7/_SUCCESS",
        "objects": [{"crc32c": "x==", "generation": 3, "name": "f/snapshot_id=7/a.parquet", "size": 10}],
    }


@dataclass(frozen=True)
class Keyed:
    by_day: dict[date, int]
    by_number: dict[int, str]


def test_keys_of_objects_are_read_back() -> None:
    keyed = Keyed({date(2026, 3, 1): 2}, {7: "a"})
    assert from_json(Keyed, to_json(keyed), where="keyed") == keyed
    with pytest.raises(ContractViolation, match="a number as key"):
        from_json(Keyed, to_json(keyed).replace('"7"', '"seven"'), where="keyed")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"bucket": None}, r"\[arrival\.bucket\] is \[None\], expected str"),
        ({"bucket": 5}, r"arrival\.bucket"),
        ({"arrived_at": "yesterday"}, r"arrival\.arrived_at"),
        ({"objects": [{"name": "a"}]}, r"arrival\.objects\[0\]\] lacks fields \['crc32c', "),
        ({"delivery": {"snapshot_id": True, "marker_generation": 1}}, "snapshot_id"),
    ],
)
def test_a_record_of_another_form_is_refused_by_field(change: dict[str, object], named: str) -> None:
    plain = {**json.loads(to_json(ARRIVAL)), **change}
    with pytest.raises(ContractViolation, match=named):
        from_json(Arrival, json.dumps(plain), where="arrival")


@dataclass(frozen=True)
class Earlier:
    name: str
    removed: int = 0


@dataclass(frozen=True)
class Later:
    name: str
    added: str | None = None
    days: dict[date, int] = field(default_factory=dict)


def test_an_unknown_key_is_ignored_and_a_missing_one_gets_its_default() -> None:
    assert from_json(Later, to_json(Earlier("a", removed=1)), where="record") == Later("a")
    assert from_json(Earlier, to_json(Later("a", added="b")), where="record") == Earlier("a")
    with pytest.raises(ContractViolation, match=r"\[record\] lacks fields \['name'\]"):
        from_json(Later, to_json(None).replace("null", "{}"), where="record")


def test_a_field_that_has_its_default_does_not_change_the_digest() -> None:
    assert record_digest(Later("a")) == record_digest(Earlier("a"))
    assert record_digest((Later("a"),)) == record_digest((Earlier("a"),))
    assert record_digest(Later("a", days={date(2026, 3, 1): 1})) != record_digest(Later("a"))


@pytest.mark.parametrize("name", ["7", "7-", "-7-1", "07-1", "7-0", "seven-1", "99999999999999999999-1"])
def test_a_text_of_another_form_is_no_delivery_name(name: str) -> None:
    assert Delivery.parse(name) is None
