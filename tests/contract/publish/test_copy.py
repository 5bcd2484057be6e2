"""Swap `copy`: target stays the same table, and until its label is set, the load's job says what it holds."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from google.cloud import bigquery

from dedup_clone.contract.errors import CheckFailed, ConfigurationError, LeaseLost, LostRace, OutcomeUnknown
from dedup_clone.operations.feed_plan import plan_feed
from dedup_clone.warehouse.bigquery import Warehouse
from dedup_clone.warehouse.table_alterations import TableAlterations
from testkit import operations, runs
from testkit.dedup_job import parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.killed_writes import kill_before_write
from testkit.waiting import wait_for

FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 21), row(8, 4)]
BOTH = [row(8, 1, 21), row(8, 4), *FIRST[1:]]
VIEW = "reports.totals"


@pytest.fixture
def world(world: FeedOnStandIn) -> FeedOnStandIn:
    world.configure(publish={"swap": "copy"})
    return world


@pytest.fixture
def viewed(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> FeedOnStandIn:
    """A feed with one generation; then a materialized view reads target, which the stand-in does not have."""
    world.publish(world.land(7, FIRST))
    monkeypatch.setattr(Warehouse, "materialized_views_of", lambda self, name: [VIEW])
    return world


def found(world: FeedOnStandIn) -> bigquery.Table:
    return world.bigquery.get_table(f"local-dev.warehouse.{world.feed.target}")


def loaded_not_labelled(world: FeedOnStandIn) -> runs.Run:
    """A run that died after the load of target, before its label was set. Generation 1 is live."""
    world.publish(world.land(7, FIRST))
    run = runs.publish(world, world.land(8, SECOND)).until("check")
    assert kill_before_write(3, partial(run.step, "swap"))  # after the id in CURRENT, and the load
    assert world.rows() == expected(*BOTH)
    assert world.live() == "1"
    return run


def test_target_stays_the_same_table_and_gets_what_the_feed_declares(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    world.query(f"CREATE ROW ACCESS POLICY all_rows ON .{world.feed.target} GRANT TO ('allUsers') FILTER USING (TRUE)")
    before = found(world)
    columns = [column.model_dump() for column in world.feed.table.columns]
    columns[4] |= {"type": "NUMERIC", "description": "What a shop measured."}
    columns += [{"name": "note", "type": "STRING", "since": 9}]
    options = {"labels": {"team": "stores"}, "friendly_name": "Attributes"}
    world.configure(
        table={"columns": columns, "retention_days": 900, "options": options}, description="All attributes."
    )
    record = world.publish(world.land(8, [row(8, 1, 21), row(8, 4)]))
    after = found(world)
    assert after.created == before.created
    assert [(field.name, field.field_type) for field in after.schema][4:] == [
        ("attr_value", "NUMERIC"),
        ("update_id", "INTEGER"),
        ("note", "STRING"),
    ]
    assert after.schema[4].description == "What a shop measured."
    assert after.time_partitioning.expiration_ms == 900 * 86_400_000
    assert (after.labels["team"], after.labels["dedup_clone_generation"]) == ("stores", "2")
    assert after.labels["dedup_clone_manifest"] == world.state.current["manifest_digest"]
    assert (after.friendly_name, after.description.split(".")[0]) == ("Attributes", "All attributes")
    assert list(world.services.warehouse.row_policies(world.feed.target)) == ["all_rows"]
    assert world.rows() == expected(*BOTH)
    assert record.cost is not None
    assert record.cost.query_bytes_billed == 0
    assert {check["level"] for check in world.state.checks(record.attempt, "after").values()} == {"pass"}


def test_a_load_whose_label_was_not_set_is_committed_by_the_next_run(world: FeedOnStandIn) -> None:
    run = loaded_not_labelled(world)
    world.publish(world.land(9, [row(9, 9)]))
    assert world.rows() == expected(*BOTH, row(9, 9))
    assert world.state.outcomes() == [(n, "published") for n in (1, 2, 3)]
    with pytest.raises(LeaseLost):  # the dead run wakes up before its load
        run.step("swap")
    with pytest.raises(OutcomeUnknown, match=r"does not hold generation \[1\].*but \[3\]"):  # or after it
        world.finish_swap(run.checked)
    assert world.live() == "3"


@pytest.mark.parametrize("write", [2, 3, 4])  # after the id in CURRENT, the longer retention, and the load
def test_a_target_that_is_being_loaded_was_not_changed_by_hand(world: FeedOnStandIn, write: int) -> None:
    world.publish(world.land(7, FIRST))
    world.configure(table={"retention_days": 900})
    run = runs.publish(world, world.land(8, SECOND)).until("check")
    assert kill_before_write(write, partial(run.step, "swap"))
    assert "target_drift" not in operations.incident_names(world)
    with pytest.raises(LostRace, match="loads target"):
        operations.audit(world)
    assert world.state.find("AUDITS") is None
    assert run.end() == (write == 4)
    assert operations.incident_names(world) == []
    assert operations.audit(world)[0][1] == (2 if write == 4 else 1)


def test_a_recovery_that_sleeps_leaves_the_retention_of_a_later_publish(world: FeedOnStandIn) -> None:
    """Else BigQuery would delete the oldest rows of that publish."""
    world.publish(world.land(7, FIRST))
    world.configure(table={"retention_days": 900})
    run = runs.publish(world, world.land(8, SECOND)).until("check")
    assert kill_before_write(3, partial(run.step, "swap"))
    set_retention, woken = TableAlterations.set_partition_expiration, []

    def sleep(*arguments: Any, **options: Any) -> None:
        if not woken:
            woken.append(arguments)
            world.publish(world.land(9, [row(9, 9)]))
        set_retention(*arguments, **options)

    with patch.object(TableAlterations, "set_partition_expiration", sleep), suppress(LostRace):
        operations.recover_lease(world, run_id="asleep")
    assert woken
    assert found(world).time_partitioning.expiration_ms == 900 * 86_400_000


def test_a_target_that_somebody_replaces_during_the_load_is_not_labelled(world: FeedOnStandIn) -> None:
    run = loaded_not_labelled(world)
    world.query(f"ALTER TABLE .{world.feed.target} SET OPTIONS (labels = [('dedup_clone_generation', '5')])")
    with pytest.raises(OutcomeUnknown, match=r"but \[5\]: somebody else published"):
        run.step("swap")
    assert not run.end()
    assert world.state.outcomes() == [(1, "published"), (2, "failed")]
    with pytest.raises(CheckFailed, match="target_is_parent"):
        world.publish(world.land(9, [row(9, 9)]))


def test_a_materialized_view_stops_a_clone_and_no_copy(viewed: FeedOnStandIn) -> None:
    viewed.publish(viewed.land(8, SECOND))
    assert operations.incident_names(viewed) == []
    viewed.configure(publish={"swap": "clone"})
    (change,) = plan_feed(viewed.services).changes
    assert change.startswith("publish.swap is [clone], it was [copy]")
    assert operations.incident_names(viewed) == ["stopped-materialized_view"]
    with pytest.raises(CheckFailed, match=rf"materialized_views: \[{VIEW}\].*publish.swap to copy"):
        viewed.publish(viewed.land(9, SECOND))


def test_a_rebuild_replaces_the_table_whatever_the_swap(viewed: FeedOnStandIn) -> None:
    viewed.configure(table={"cluster_by": ["store_id"]})
    with pytest.raises(ConfigurationError, match=rf"materialized_views: \[{VIEW}\]"):
        runs.rebuild(viewed).finish()


def test_a_rollback_needs_the_files_of_the_generation(world: FeedOnStandIn) -> None:
    for snapshot_id in (7, 8, 9):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1)]))
    operations.delete_obsolete(world)
    with pytest.raises(ConfigurationError, match=r"Choose one of: 3 \(snapshot 9\), 2 \(snapshot 8\)"):
        world.roll_back(1)
    world.roll_back(2)
    assert world.rows() == expected(row(8, 1))


READERS, READS_PER_SECOND = 5, 50


@contextmanager
def reading(world: FeedOnStandIn, wrong: list[Any]) -> Iterator[None]:
    """Query target READS_PER_SECOND times a second. `wrong`: gets each error, and each result with several values."""
    ends = threading.Event()

    def read() -> None:
        while not ends.wait(READERS / READS_PER_SECOND):
            try:
                ((lowest, highest, rows),) = world.query(
                    f"SELECT MIN(attr_value), MAX(attr_value), COUNT(*) FROM .{world.feed.target}"
                )
            except Exception as error:
                wrong.append(error)
            else:
                if lowest != highest or rows != 20:
                    wrong.append((lowest, highest, rows))

    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        ends.set()
        for reader in readers:
            reader.join()


def same_values(number: int) -> list[Any]:
    """A snapshot of two dates, all of whose rows have the same value."""
    return [row(number, product, number, day=day) for product in range(10) for day in (TODAY, YESTERDAY)]


@pytest.mark.parametrize("swap", ["copy", "clone"])
def test_readers_see_one_generation_while_publishes_are_killed(world: FeedOnStandIn, swap: str) -> None:
    """The clones keep the previous table, too."""
    world.configure(publish={"swap": swap}, table={"keep_previous": "7d" if swap == "clone" else None})
    world.publish(world.land(7, same_values(7)))
    wrong: list[Any] = []
    with reading(world, wrong):
        for number in range(8, 14):
            run = runs.publish(world, world.land(number, same_values(number)), run_id=f"run-{number}").until("check")
            kill_before_write(number - 7, partial(run.until, "commit"))
            operations.recover_lease(world)
    assert wrong == []
    world.publish(world.land(14, same_values(14)))
    assert {value for _, _, value, _ in world.rows()} == {14}


def test_readers_of_a_target_that_is_loaded_date_by_date_see_a_mixture(world: FeedOnStandIn) -> None:
    """The naive way, which proves that the readers of the test above would see one."""
    world.publish(world.land(7, same_values(7)))
    wrong: list[Any] = []
    with reading(world, wrong):
        for day in (YESTERDAY, TODAY):
            config = bigquery.LoadJobConfig(source_format="PARQUET", write_disposition="WRITE_TRUNCATE_DATA")
            content = parquet_bytes([found for found in same_values(8) if found["date"] == day])
            name = f"local-dev.warehouse.{world.feed.target}${day:%Y%m%d}"
            file, size = io.BytesIO(content), len(content)
            world.bigquery.load_table_from_file(file, name, size=size, job_config=config).result()
            wait_for(lambda: wrong, "a reader sees both snapshots")
    assert set(wrong) == {(7, 8, 20)}
