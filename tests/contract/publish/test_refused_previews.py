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
from dedup_clone.publish.backfill.archived_snapshots import describe_backfill
from dedup_clone.publish.erasure.preview_erasure import preview_erasure
from dedup_clone.publish.erasure.resolve_erasure import ErasureRequest, resolve_erasure
from dedup_clone.publish.previews.dry_run import dry_run
from dedup_clone.publish.previews.feed_plan import plan_feed
from dedup_clone.publish.rebuild.rebuild_plan import plan_rebuild
from dedup_clone.publish.resolve import resolve
from dedup_clone.publish.retirement.preview_retirement import preview_retirement
from dedup_clone.publish.retirement.retire_feed import retire_feed
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.table_settings import ColumnSettings
from dedup_clone.state.retired import TargetAction
from dedup_clone.state.staging import Staging, StagingState
from testkit.feed_on_stand_in import ERASE_DAG, KEYS_FILE, TODAY, FeedOnStandIn, row
from tests.contract.publish import bootstrap_steps, rebuild_steps, retirement_steps
from tests.contract.publish.archive import Archive

FLOATS = r"\[price, size\.height\]"
ERASURE = ErasureRequest(ERASE_DAG, "erase", KEYS_FILE, "request 7")
EXPORT = retirement_steps.request(TargetAction.EXPORT)


def publish_with_floats(world: FeedOnStandIn) -> None:
    height = ColumnSettings(name="height", type="FLOAT64")
    world.feed = rebuild_steps.with_columns(
        world.feed,
        price=ColumnSettings(name="price", type="FLOAT64"),
        size=ColumnSettings(name="size", type="STRUCT", fields=(height,)),
    )
    world.publish(rebuild_steps.land(world, 7, [row(7, 1) | {"price": 0.1, "size": {"height": 0.2}}]))


def publish(world: FeedOnStandIn) -> None:
    for snapshot_id in (7, 8):
        world.publish(world.land(snapshot_id, [row(snapshot_id, 1), row(snapshot_id, 2)]))


def without_files(world: FeedOnStandIn) -> None:
    """An engine in SQL writes no files; a lifecycle rule may delete those of Spark."""
    world.services.store.delete_prefix(world.services.layout.data)


def change_target(world: FeedOnStandIn) -> None:
    world.bigquery.query_and_wait(f"DELETE FROM warehouse.{world.feed.target} WHERE product_id = 1")


def mix_target(world: FeedOnStandIn) -> None:
    world.services.staging.write(Staging(StagingState.BEHIND_TARGET, "00000009-streams", 9, "", is_streamed=True))


def expire_target(world: FeedOnStandIn) -> None:
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    table.expires = world.now().replace(year=world.now().year + 1)
    world.bigquery.update_table(table, ["expires"])


def land_in_folder_of_archive(world: FeedOnStandIn) -> None:
    archive(world).put(3, [row(3, 1)])
    other = f"{world.feed.landing.prefix}/snapshot_id=3/date={TODAY}/part-9.parquet"
    world.storage.bucket(world.places.landing).blob(other).upload_from_string(b"being written")


def take_over_floats(world: FeedOnStandIn) -> None:
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


def archive(world: FeedOnStandIn) -> Archive:
    return Archive(world)


def keys(world: FeedOnStandIn) -> None:
    world.services.store.put(world.services.layout.keys_to_erase(KEYS_FILE), "product_id\n1\n")


def shown_publish(world: FeedOnStandIn) -> None:
    dry_run(world.services, world.publish_request(world.land(9, [row(9, 1)])))


def resolved_publish(world: FeedOnStandIn) -> None:
    resolve(world.services, world.publish_request(world.land(9, [row(9, 1)])))


def shown_erasure(world: FeedOnStandIn) -> None:
    keys(world)
    preview_erasure(world.services, ERASURE, 0)


def resolved_erasure(world: FeedOnStandIn) -> PublishSpec:
    keys(world)
    return resolve_erasure(world.services, ERASURE)


def shown_rebuild(world: FeedOnStandIn) -> None:
    world.feed = rebuild_steps.with_table(world.feed, cluster_by=("store_id",))
    plan_rebuild(world.services, rebuild_steps.request())


Step = Callable[[FeedOnStandIn], object]
CASES: dict[str, tuple[tuple[Step, ...], Step, type[DedupCloneError], str]] = {
    "publish, float": ((publish_with_floats, without_files), shown_publish, ContractViolation, FLOATS),
    "publish, float, no lease": ((publish_with_floats, without_files), resolved_publish, ContractViolation, FLOATS),
    "publish, mixed": ((publish, without_files, mix_target), shown_publish, ContractViolation, "did not commit"),
    "publish, rows": ((publish, without_files, change_target), shown_publish, ContractViolation, "1 rows, expected 2"),
    "erasure, float": ((publish_with_floats, without_files), shown_erasure, ContractViolation, FLOATS),
    "erasure, mixed": ((publish, without_files, mix_target), shown_erasure, ContractViolation, "did not commit"),
    "erasure, no lease": ((publish, without_files, mix_target), resolved_erasure, ContractViolation, "did not commit"),
    "rebuild, float": ((publish_with_floats,), shown_rebuild, ConfigurationError, r"\[price\] .*\[size\.height\]"),
    "rebuild, mixed": ((publish, mix_target), shown_rebuild, ConfigurationError, "did not commit"),
    "rebuild, rows": ((publish, change_target), shown_rebuild, ConfigurationError, "1 rows, expected 2"),
    "bootstrap, float": ((take_over_floats,), bootstrap_steps.preview, BootstrapRefused, FLOATS),
    "bootstrap, staging": (
        (bootstrap_steps.maintain, make_staging),
        bootstrap_steps.preview,
        BootstrapRefused,
        r"exists, and would not be published \(.*clustered by store_id; expected",
    ),
    "retirement, float": (
        (publish_with_floats,),
        lambda world: preview_retirement(world.services, EXPORT),
        ConfigurationError,
        FLOATS,
    ),
    "retirement, rows": (
        (publish, change_target),
        lambda world: preview_retirement(world.services, EXPORT),
        ConfigurationError,
        "1 rows, expected 2",
    ),
    "retirement, no record": (
        (publish, change_target),
        lambda world: retire_feed(world.services, EXPORT),
        ConfigurationError,
        "1 rows, expected 2",
    ),
    "rollback, expiration": ((publish, expire_target), lambda world: world.preview(1), CheckFailed, "table_expiration"),
    "backfill, other objects": (
        (land_in_folder_of_archive,),
        lambda world: describe_backfill(world.services, archive(world).landing, archive(world).request),
        ContractViolation,
        "objects that the archive's snapshot lacks, such as .*part-9",
    ),
}


@pytest.mark.parametrize(("prepare", "show", "error", "words"), CASES.values(), ids=CASES.keys())
def test_what_a_later_step_refuses_is_refused_by_the_preview(
    world: FeedOnStandIn, prepare: tuple[Step, ...], show: Step, error: type[DedupCloneError], words: str
) -> None:
    for step in prepare:
        step(world)
    before = world.services.current.read()
    with pytest.raises(error, match=words):
        show(world)
    assert world.services.current.read() == before
    assert world.services.retired.read() is None


def test_the_plan_of_a_switch_to_spark_names_float64_columns(world: FeedOnStandIn) -> None:
    publish_with_floats(world)
    assert plan_feed(world.services).problems == ()
    without_files(world)
    (problem,) = plan_feed(world.services).problems
    assert "[price, size.height]" in problem


@pytest.mark.parametrize("prepare", [(publish_with_floats,), (publish, without_files)], ids=["files", "no float"])
def test_rows_that_can_be_read_are_not_refused(world: FeedOnStandIn, prepare: tuple[Step, ...]) -> None:
    for step in prepare:
        step(world)
    shown_erasure(world)
    spec = resolved_erasure(world)
    assert spec.parent == world.services.current.read().generation
