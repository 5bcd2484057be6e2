"""Every write to Cloud Storage and BigQuery is stored, but its first answer is 503: the clients then repeat it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dedup_clone.publish.approval import begin_approval_wait, end_approval_wait
from dedup_clone.state.ledger import Outcome
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row
from testkit.lost_answers import losing_answers

FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 99), row(8, 4, 99)]


@pytest.fixture
def unlucky(world: FeedOnStandIn) -> Iterator[FeedOnStandIn]:
    with losing_answers(world.storage) as world.storage, losing_answers(world.bigquery) as world.bigquery:
        yield world


def test_publishes_and_a_rollback_take_none_of_their_writes_for_those_of_another_run(
    unlucky: FeedOnStandIn,
) -> None:
    unlucky.publish(unlucky.land(7, FIRST))
    unlucky.publish(unlucky.land(8, SECOND))
    unlucky.roll_back(1)
    unlucky.write_reporting_tables()
    assert unlucky.rows() == expected(*FIRST)
    assert unlucky.services.current.read().intent is None
    assert [record.outcome for record in unlucky.services.ledger.read_last(9)] == [Outcome.PUBLISHED] * 3


def test_an_approval_is_kept(unlucky: FeedOnStandIn) -> None:
    unlucky.publish(unlucky.land(7, FIRST))
    spec, swap = unlucky.publish_to_check(unlucky.land(8, SECOND), run_id="by-hand")
    unlucky.running.add("by-hand")
    begin_approval_wait(unlucky.services, spec)
    end_approval_wait(unlucky.services, spec)
    unlucky.swap(spec, swap)
    unlucky.commit(spec)
    assert unlucky.live() == "2"
