"""Faults apply to the n-th match only."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.faults import FaultRegistry, parse_fault


def test_fault_fires_from_the_nth_match_for_its_times() -> None:
    board = FaultRegistry()
    board.add(parse_fault({"match": {"method": "get", "path": "/jobs/"}, "effect": "error", "nth": 2, "times": 2}))
    fired = [board.match_request("GET", "/bigquery/v2/projects/p/jobs/j") is not None for _ in range(5)]
    assert fired == [False, True, True, False, False]
    assert board.match_request("POST", "/jobs/x") is None
    assert board.match_job("query", "j") is None


def test_queued_job_waits_for_the_faults_to_be_cleared() -> None:
    board = FaultRegistry()
    fault = board.add(parse_fault({"match": {"job_type": "load"}, "effect": "queue"}))
    assert board.match_job("load", "j") == fault
    waiting = threading.Thread(target=board.wait_in_queue, args=(fault, threading.Event()))
    waiting.start()
    board.clear()
    waiting.join(timeout=30)
    assert not waiting.is_alive()


@pytest.mark.parametrize(
    "body",
    [
        {"effect": "error"},
        {"match": {}, "effect": "error"},
        {"match": {"method": "GET", "job_type": "load"}, "effect": "error"},
        {"match": {"method": "GET"}, "effect": "queue"},
        {"match": {"job_type": "load"}, "effect": "lost_reply"},
        {"match": {"job_type": "load"}, "effect": "delay"},
        {"match": {"job_type": "load"}, "effect": "error", "nht": 1},
        {"match": {"path": "(jobs"}, "effect": "error"},
        {"match": {"job_id": 5}, "effect": "error"},
        {"match": {"method": "GET"}, "effect": "error", "nth": "2"},
        {"match": {"method": "GET"}, "effect": "delay", "seconds": None},
    ],
)
def test_impossible_faults_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="Fault"):
        parse_fault(body)
