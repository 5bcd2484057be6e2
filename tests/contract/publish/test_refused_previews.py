"""What a later step of an operation refuses is refused by its preview, before an approval, a lease or a bill."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dedup_clone.contract.errors import (
    BootstrapRefused,
    CheckFailed,
    ConfigurationError,
    ContractViolation,
    DedupCloneError,
)
from testkit import deliveries, runs
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.publish.existing_tables import column, land_declared, maintain, with_columns, with_table

Step = Callable[[FeedOnStandIn], object]
FLOATS = r"\[price, size\.height\]"
KEYS = "product_id\n1\n"


def publish_with_floats(world: FeedOnStandIn) -> None:
    size = column("size", "STRUCT", fields=(column("height", "FLOAT64"),))
    world.feed = with_columns(world.feed, price=column("price", "FLOAT64"), size=size)
    world.publish(land_declared(world, 7, [row(7, 1) | {"price": 0.1, "size": {"height": 0.2}}]))


def publish(world: FeedOnStandIn) -> None:
    for snapshot_id in (7, 8):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1), row(snapshot_id, 2)]))


def without_files(world: FeedOnStandIn) -> None:
    """An engine in SQL writes no files; a lifecycle rule may delete those of Spark."""
    world.state.lose("data/")


def change_target(world: FeedOnStandIn) -> None:
    world.bigquery.query_and_wait(f"DELETE FROM warehouse.{world.feed.target} WHERE product_id = 1")


def cluster_otherwise(world: FeedOnStandIn) -> None:
    world.feed = with_table(world.feed, cluster_by=("store_id",))


def expire_target(world: FeedOnStandIn) -> None:
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    table.expires = world.now().replace(year=world.now().year + 1)
    world.bigquery.update_table(table, ["expires"])


def copy_table_with_floats(world: FeedOnStandIn) -> None:
    publish_with_floats(world)
    source, world.feed = world.feed.target, world.feed.model_copy(update={"feed": f"{world.feed.feed}_again"})
    world.bigquery.query_and_wait(
        f"CREATE TABLE warehouse.{world.feed.target} CLONE warehouse.{source} OPTIONS (labels = [])"
    )


def make_staging(world: FeedOnStandIn) -> None:
    world.bigquery.query_and_wait(
        f"CREATE TABLE warehouse.{world.feed.staging} PARTITION BY date CLUSTER BY store_id "
        f"AS SELECT * FROM warehouse.{world.feed.target} WHERE FALSE"
    )


def shown_publish(world: FeedOnStandIn) -> None:
    deliveries.dry_run_of(world, world.land(9, [row(9, 1)]))


def resolved_publish(world: FeedOnStandIn) -> None:
    world.resolve(world.land(9, [row(9, 1)]))


def shown_erasure(world: FeedOnStandIn) -> None:
    runs.erasure(world, KEYS).step("preview")


def shown_rebuild(world: FeedOnStandIn) -> None:
    cluster_otherwise(world)
    runs.rebuild(world).step("preview")


def shown_bootstrap(world: FeedOnStandIn) -> None:
    runs.bootstrap(world).step("preview")


CASES: dict[str, tuple[tuple[Step, ...], Step, type[DedupCloneError], str]] = {
    "publish, float": ((publish_with_floats, without_files), shown_publish, ContractViolation, FLOATS),
    "publish, float, no lease": ((publish_with_floats, without_files), resolved_publish, ContractViolation, FLOATS),
    "publish, rows": ((publish, without_files, change_target), shown_publish, ContractViolation, "1 rows, expected 2"),
    "publish, layout": ((publish, cluster_otherwise), shown_publish, CheckFailed, "layout"),
    "erasure, float": ((publish_with_floats, without_files), shown_erasure, ContractViolation, FLOATS),
    "rebuild, float": ((publish_with_floats,), shown_rebuild, ConfigurationError, r"\[price\] .*\[size\.height\]"),
    "rebuild, rows": ((publish, change_target), shown_rebuild, ConfigurationError, "1 rows, expected 2"),
    "bootstrap, float": ((copy_table_with_floats,), shown_bootstrap, BootstrapRefused, FLOATS),
    "bootstrap, staging": ((maintain, make_staging), shown_bootstrap, BootstrapRefused, "clustered by store_id"),
    "rollback, expiration": ((publish, expire_target), lambda world: world.preview(1), CheckFailed, "table_expiration"),
}


@pytest.mark.parametrize(("prepare", "show", "error", "words"), CASES.values(), ids=CASES.keys())
def test_what_a_later_step_refuses_is_refused_by_the_preview(
    world: FeedOnStandIn, prepare: tuple[Step, ...], show: Step, error: type[DedupCloneError], words: str
) -> None:
    for step in prepare:
        step(world)
    before = world.state.current
    with pytest.raises(error, match=words):
        show(world)
    assert world.state.current == before


@pytest.mark.parametrize("prepare", [(publish_with_floats,), (publish, without_files)], ids=["files", "no float"])
def test_rows_that_can_be_read_are_not_refused(world: FeedOnStandIn, prepare: tuple[Step, ...]) -> None:
    for step in prepare:
        step(world)
    generation = world.state.generation
    run = runs.erasure(world, KEYS).until("resolve")
    assert run.plan.parent == generation
