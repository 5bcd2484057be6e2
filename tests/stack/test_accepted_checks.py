"""A publish that a check stopped, replayed with that check accepted: it waits for a person, who may still refuse."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from soak.stack import SoakStack
from tests.stack.approvals import Approvals
from tests.stack.extra_feeds import BOUNDED
from tests.stack.local_stack import LocalStack, Row, as_tuples, row

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

TODAY = datetime.now(UTC).date()
CHECK, REASON = "changed_share", "prices were raised today"


def snapshot(snapshot_id: int) -> list[Row]:
    """Every value is the snapshot's own."""
    return [row(TODAY, product, snapshot_id * 10 + product, snapshot_id) for product in range(5)]


def test_a_replay_that_accepts_a_failed_check_waits_for_approval_and_keeps_the_reason(
    stack: LocalStack, gated_stack: SoakStack, tmp_path: Path
) -> None:
    approvals = Approvals(stack, BOUNDED, "publish", "approve_accepted")
    first = stack.land(BOUNDED, 1, snapshot(1), tmp_path / "1")
    assert stack.wait_for_run(BOUNDED, first) == "success"
    second = stack.land(BOUNDED, 2, snapshot(2), tmp_path / "2")
    assert stack.wait_for_run(BOUNDED, second) == "failed"
    assert CHECK in stack.failure_log(BOUNDED, second, "check_staging")
    assert stack.rows(BOUNDED) == as_tuples(snapshot(1))

    for option, end, rows in (("Reject", "failed", snapshot(1)), ("Approve", "success", snapshot(2))):
        run_id = stack.replay(BOUNDED, snapshot_id="2", accepted_checks=[CHECK], reason=REASON)
        question = approvals.wait_for_question(run_id)
        assert CHECK in question
        assert REASON in question
        assert stack.rows(BOUNDED) == as_tuples(snapshot(1))
        assert approvals.answer(run_id, option, user="vera") == 403
        assert approvals.answer(run_id, option) == 200
        assert approvals.end_of(run_id, option) == end, stack.task_states(BOUNDED, run_id)
        assert stack.rows(BOUNDED) == as_tuples(rows)
    assert gated_stack.ledger(BOUNDED)[-1].reason == REASON
