"""The deadline's reference: the arrival, else now, whatever the run's configuration holds; it never raises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedup_clone.orchestration.publish.freshness_deadline import ArrivalReference, arrival_of


class Session:
    """Answers with one run's configuration, or fails."""

    def __init__(self, conf: Any) -> None:
        self.conf = conf

    def scalar(self, statement: Any) -> Any:
        if isinstance(self.conf, Exception):
            raise self.conf
        return self.conf


def evaluate(conf: Any, run_id: str = "publish__7__1") -> datetime:
    session: Any = Session(conf)
    return ArrivalReference()._evaluate_with(session=session, dag_id="f_publish", run_id=run_id)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05+00:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.678901Z", datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
    ],
)
def test_the_arrival_is_taken_from_the_configuration(text: str, expected: datetime) -> None:
    assert arrival_of({"snapshot_id": "7", "arrived_at": text}, "publish__7__1") == expected
    assert evaluate({"arrived_at": text}) == expected


BAD: list[Any] = [
    None,
    {},
    [],
    "arrived_at",
    7,
    {"arrived_at": None},
    {"arrived_at": ""},
    {"arrived_at": 1795281895},
    {"arrived_at": ["2026-01-02"]},
    {"arrived_at": "yesterday"},
    {"arrived_at": "2026-13-45T00:00:00Z"},
    {"arrived_at": "0001-01-01T00:00:00+14:00"},  # before the first moment there is in UTC
    {"arrived_at": "9999-12-31T23:59:59-14:00"},
    RuntimeError("the database is gone"),
]


@pytest.mark.parametrize("conf", BAD, ids=repr)
def test_any_other_configuration_counts_from_the_trigger(conf: Any) -> None:
    before = datetime.now(UTC)
    assert before <= evaluate(conf) <= datetime.now(UTC)


def test_a_replay_with_the_configuration_of_an_automatic_run_counts_from_the_trigger() -> None:
    before = datetime.now(UTC)
    assert evaluate({"arrived_at": "2026-01-02"}, "manual__2026-01-03") >= before


def test_an_arrival_in_the_future_is_now() -> None:
    before = datetime.now(UTC)
    tomorrow = (before + timedelta(days=1)).isoformat()
    assert before <= evaluate({"arrived_at": tomorrow}) <= datetime.now(UTC)


def test_the_reference_survives_serialization() -> None:
    again = ArrivalReference.deserialize_reference(ArrivalReference().serialize_reference())
    assert again == ArrivalReference()
