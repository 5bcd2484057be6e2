"""`last_changed`: only the dates that differ from what staging holds are loaded; what is not known is loaded whole."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.state.ledger import LedgerRecord
from tests.contract.publish.feed_world import TODAY, FeedWorld, expected, row
from tests.contract.publish.python_dedup import Row
from tests.contract.publish.real_dedup import RealDedup

DAYS = [TODAY - timedelta(days=n) for n in range(4)]
BASE = [row(7, n, day=day) for n, day in enumerate(DAYS)]
SECOND = [row(8, 9, day=DAYS[1])]


@pytest.fixture
def changing(world: FeedWorld) -> FeedWorld:
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world.publish(world.land(7, BASE))
    return world


def loads_of(world: FeedWorld, record: LedgerRecord) -> list[str]:
    """The load jobs of an attempt: `load` for the whole table, `load_<date>` for one partition."""
    jobs = [j.job_id for j in world.bigquery.list_jobs() if record.attempt in j.job_id]
    return sorted(step for step in (job.rsplit("-", 2)[1] for job in jobs) if step.startswith("load"))


def publish(world: FeedWorld, snapshot_id: int, rows: list[Row]) -> list[str]:
    return loads_of(world, world.publish(world.land(snapshot_id, rows)))


def test_with_the_real_job_an_unchanged_snapshot_loads_nothing_and_a_change_its_date_alone(
    world: FeedWorld, real_dedup: RealDedup
) -> None:
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world.dedup = real_dedup
    world.publish(world.land(7, BASE))
    assert publish(world, 8, [{**one, "update_id": 8} for one in BASE]) == []
    assert world.rows() == expected(*BASE)
    changed = [{**one, "update_id": 9, "attr_value": 77 if n == 2 else one["attr_value"]} for n, one in enumerate(BASE)]
    assert publish(world, 9, changed) == [f"load_{DAYS[2]:%Y%m%d}"]
    assert world.rows() == expected(*(changed[n] if n == 2 else one for n, one in enumerate(BASE)))


def test_only_the_changed_date_is_loaded(changing: FeedWorld) -> None:
    assert publish(changing, 8, SECOND) == [f"load_{DAYS[1]:%Y%m%d}"]
    assert changing.rows() == expected(*BASE, *SECOND)


def test_a_snapshot_that_changes_nothing_loads_nothing(changing: FeedWorld) -> None:
    name = changing.land(8, SECOND)
    changing.publish(name)
    record = changing.publish(name, replay=True, run_id="manual")
    assert loads_of(changing, record) == []
    assert changing.rows() == expected(*BASE, *SECOND)
    assert changing.live() == "3"


def test_many_changed_dates_are_loaded_as_a_whole(changing: FeedWorld) -> None:
    assert publish(changing, 8, [row(8, 9, day=day) for day in DAYS[:3]]) == ["load"]


def test_the_whole_table_is_loaded_where_a_load_did_not_end(changing: FeedWorld) -> None:
    order = changing.resolve(changing.land(8, SECOND))
    changing.dedup.run(order.request_uri)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dedup_clone.publish.partition_load.finish_load", lambda *_: None)
        changing.load(order)  # dies before STAGING says `loaded`
    changing.dedup.refuse = {8}
    assert publish(changing, 9, [row(9, 5, day=DAYS[0])]) == ["load"]
    assert changing.rows() == expected(*BASE, row(9, 5, day=DAYS[0]))


def test_what_a_failed_run_left_in_staging_is_loaded_over(changing: FeedWorld) -> None:
    order = changing.resolve(changing.land(8, SECOND))
    changing.dedup.run(order.request_uri)
    changing.load(order)  # loaded, never swapped
    changing.dedup.refuse = {8}
    after = publish(changing, 9, [row(9, 5, day=DAYS[0])])
    assert after == [f"load_{day:%Y%m%d}" for day in (DAYS[1], DAYS[0])]
    assert changing.rows() == expected(*BASE, row(9, 5, day=DAYS[0]))


def test_after_a_rollback_only_what_differs_from_staging_is_loaded(changing: FeedWorld) -> None:
    publish(changing, 8, SECOND)
    changing.roll_back(1)
    assert publish(changing, 9, [row(9, 5, day=DAYS[0])]) == [f"load_{day:%Y%m%d}" for day in (DAYS[1], DAYS[0])]
    assert changing.rows() == expected(*BASE, row(9, 5, day=DAYS[0]))
