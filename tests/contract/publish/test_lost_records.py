"""Records are lost: what the runbook tells to do, step by step."""

from __future__ import annotations

import pytest

from dedup_clone.contract.errors import BootstrapRefused, CheckFailed
from dedup_clone.state.store import ObjectStore
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from tests.contract.publish import bootstrap_steps as steps

ROWS = [row(8, 1, 21), row(7, 2)]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed with two generations."""
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    world.publish(world.land(8, [row(8, 1, 21)]))
    assert world.rows() == expected(*ROWS)
    return world


def remove_label(world: FeedOnStandIn) -> None:
    """`bq update --clear_label dedup_clone_generation`."""
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    table.labels = {name: None for name in table.labels}
    world.bigquery.update_table(table, ["labels"])


def lose(world: FeedOnStandIn, *prefixes: str) -> None:
    for prefix in prefixes:
        world.services.store.delete_folder(f"{world.feed.feed}/{prefix}")


@pytest.mark.parametrize("lost", [("",), ("CURRENT",), ("CURRENT", "manifests/", "STAGING")])
def test_without_its_records_a_feed_goes_on_from_its_table(published: FeedOnStandIn, lost: tuple[str, ...]) -> None:
    lose(published, *lost)
    with pytest.raises(BootstrapRefused, match=r"generation \[2\] of this feed.*records are lost.*--clear_label"):
        steps.bootstrap(published)
    assert published.rows() == expected(*ROWS)
    remove_label(published)
    kept = "" not in lost
    record = steps.bootstrap(published, reason="records are lost")
    assert (record.generation > 2) == kept  # numbers that any record still names are not used again
    assert published.rows() == expected(*ROWS)
    published.publish(published.land(9, [row(9, 2, 30)]))
    assert published.rows() == expected(ROWS[0], row(9, 2, 30))


def test_without_its_records_a_feed_publishes_nothing_over_its_table(published: FeedOnStandIn) -> None:
    lose(published, "")
    spec = published.resolve(published.land(9, [row(9, 3)]))
    published.deduplicate(spec)
    published.load(spec)
    with pytest.raises(CheckFailed, match="target_is_parent"):
        published.check(spec)
    assert published.rows() == expected(*ROWS)


def test_a_prune_deletes_files_with_their_versions(published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion without an object generation would leave a former version, which is billed."""
    deleted: list[object] = []
    bucket = published.storage.bucket("state")
    delete = type(bucket).delete_blob

    def recorded(self: object, name: str, **options: object) -> None:
        deleted.append(options.get("generation"))
        delete(self, name, **options)

    monkeypatch.setattr(type(bucket), "delete_blob", recorded)
    folder = published.services.layout.data
    assert ObjectStore(published.storage, "state").delete_folder(folder) == len(deleted) > 0
    assert None not in deleted
