"""Records that only report on an attempt are lost or damaged: its lease is released, and the feed goes on."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from google.api_core.exceptions import ServiceUnavailable

from dedup_clone.contract.errors import LaterRelease
from dedup_clone.orchestration.publish import publish_steps
from dedup_clone.publish.lost_records.recovery_plan import plan_recovery
from dedup_clone.publish.prune import prune
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.rollback.resolve_rollback import RollbackRequest, resolve_rollback
from dedup_clone.state.ledger import LedgerRecord, Outcome
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse
from testkit.feed_on_stand_in import ROLLBACK_DAG, FeedOnStandIn, expected, row
from tests.contract.feed_setups import setup_of
from tests.contract.feed_state_reader import read_state
from tests.contract.publish.lost_objects import DAMAGE

FIRST = [row(7, 1), row(7, 2)]
SECOND = [row(8, 1, 21)]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    world.publish(world.land(7, FIRST))
    return world


def lose_arrivals(world: FeedOnStandIn) -> None:
    """The records and the landed objects, so that nothing registers the deliveries again."""
    world.services.store.delete_prefix(world.services.layout.arrivals)
    world.services.landing.store.delete_prefix(f"{world.feed.landing.prefix}/")


def end_run_of_another(world: FeedOnStandIn) -> LedgerRecord:
    """The next run recovers what the attempt left. Returns the attempt's ledger record."""
    intent = world.services.current.read().intent
    assert intent
    recover(world.services, dag_id="other", run_id="other")
    assert world.services.current.read().intent is None
    record = world.services.ledger.read(intent.attempt)
    assert record
    return record


def goes_on(world: FeedOnStandIn, *rows: object) -> None:
    world.publish(world.land(9, [row(9, 9)]))
    assert world.rows() == expected(*rows, row(9, 9))  # type: ignore[arg-type]


@pytest.mark.parametrize("ledger_is_lost", [False, True])
def test_a_rollback_is_committed_although_its_snapshots_arrival_record_is_lost(
    published: FeedOnStandIn, ledger_is_lost: bool
) -> None:
    published.publish(published.land(8, SECOND))
    arrived_at = published.services.ledger.read_last(2)[0].arrived_at
    spec = resolve_rollback(published.services, RollbackRequest(ROLLBACK_DAG, "back", 1, 2, "bad snapshot"))
    swap = published.check(spec)
    lose_arrivals(published)
    if ledger_is_lost:
        published.services.store.delete_prefix(published.services.layout.index)
        published.services.store.delete_prefix(published.services.layout.ledger)
        arrived_at = published.services.current.require_intent(spec.attempt).taken_at
    published.swap(spec, swap)
    record = end_run_of_another(published)
    assert (record.restores, record.arrived_at, record.lag_s) == (1, arrived_at, None)
    goes_on(published, *FIRST)


@pytest.mark.parametrize("ended", ["swapped", "discarded"])
def test_a_publish_whose_arrival_record_is_lost_ends(published: FeedOnStandIn, ended: str) -> None:
    spec, swap = published.publish_to_check(published.land(8, SECOND))
    if ended == "swapped":
        published.swap(spec, swap)
    intent = published.services.current.require_intent(spec.attempt)
    lose_arrivals(published)
    record = end_run_of_another(published)
    assert (record.lag_s, record.arrived_at) == (None, intent.taken_at)
    assert record.outcome is (Outcome.PUBLISHED if ended == "swapped" else Outcome.FAILED)
    goes_on(published, *(SECOND if ended == "swapped" else FIRST[:1]), FIRST[1])


@pytest.mark.parametrize("damaged", ["candidate.json", "request.json", "checks_before.json"])
def test_an_attempt_with_a_damaged_record_is_discarded(published: FeedOnStandIn, damaged: str) -> None:
    spec, _ = published.publish_to_check(published.land(8, SECOND))
    published.services.store.put(f"{published.services.layout.attempt_folder(spec.attempt)}{damaged}", DAMAGE)
    recover(published.services, dag_id="other", run_id="other")
    assert published.services.current.read().intent is None
    goes_on(published, *SECOND, FIRST[1])


def test_an_attempt_with_a_record_of_a_later_release_is_left_to_that_release(published: FeedOnStandIn) -> None:
    spec, _ = published.publish_to_check(published.land(8, SECOND))
    later = '{"format_version": 99, "release": "9.1.0"}'
    published.services.store.put(published.services.layout.request(spec.attempt), later)
    with pytest.raises(LaterRelease, match=r"at least version \[9\.1\.0\]"):
        recover(published.services, dag_id="other", run_id="other")
    assert published.services.current.require_intent(spec.attempt)


@pytest.mark.parametrize(
    "damaged", ["request.json", "checks_before.json", "spark_usage.json", "files.json", "manifest"]
)
def test_a_swap_is_committed_although_what_only_the_ledger_reads_is_damaged(
    published: FeedOnStandIn, damaged: str
) -> None:
    spec, swap = published.publish_to_check(published.land(8, SECOND))
    published.swap(spec, swap)
    store, layout = published.services.store, published.services.layout
    candidate = published.services.manifests.candidate(spec.attempt)
    assert candidate
    assert candidate.file_list_uri
    if damaged == "files.json":
        store.delete_prefix(candidate.file_list_uri.removeprefix(store.uri("")))
    else:
        name = f"{layout.attempt_folder(spec.attempt)}{damaged}"
        store.put(layout.manifest(1) if damaged == "manifest" else name, DAMAGE)
    record = end_run_of_another(published)
    assert (record.outcome, record.deliveries[-1].snapshot_id) == (Outcome.PUBLISHED, 8)
    assert (record.cost is None, record.lag_s is None) == (damaged == "spark_usage.json", damaged == "manifest")
    assert (record.shares == {}) == (damaged == "manifest")
    goes_on(published, *SECOND, FIRST[1])


def test_a_swap_is_committed_although_bigquery_does_not_tell_what_it_cost(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, swap = published.publish_to_check(published.land(8, SECOND))
    published.swap(spec, swap)

    def fail(*_: object, **__: object) -> None:
        raise ServiceUnavailable("no job is shown")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(Warehouse, "wait_for_jobs", fail)
    record = published.commit(spec)
    assert (record.cost, record.phases) == (None, {})
    assert record.lag_s
    assert published.services.current.read().intent is None


def test_the_retried_task_of_a_commit_goes_on_without_the_results_of_its_checks(published: FeedOnStandIn) -> None:
    spec, swap = published.publish_to_check(published.land(8, SECOND))
    published.swap(spec, swap)
    record = published.commit(spec)
    published.services.store.put(published.services.layout.check_results(spec.attempt, "after"), DAMAGE)
    assert published.commit(spec) == record


def test_what_follows_a_commit_does_not_make_its_run_a_failed_one(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spec, swap = published.publish_to_check(published.land(8, SECOND))
    published.swap(spec, swap)
    published.services.store.put(published.services.layout.manifest(1), DAMAGE)
    setup = setup_of(published)
    monkeypatch.setattr(publish_steps, "open_feed_services", lambda setup: published.services)
    monkeypatch.setattr(publish_steps, "pull_spec", lambda context: spec)
    monkeypatch.setattr(publish_steps, "event_extra", Mock(side_effect=ValueError("no extra")))
    assert publish_steps._commit_generation(setup, {}, None)["generation"] == 2  # type: ignore[arg-type]
    with caplog.at_level("WARNING"):
        assert publish_steps.delete_unneeded_data(setup) == []
    assert "nothing is pruned until the next publish" in caplog.text
    goes_on(published, *SECOND, FIRST[1])
    assert publish_steps.delete_unneeded_data(setup)


FOREIGN = [
    *(f"arrivals/{name}" for name in ("", "placeholder", "7-1.json.bak", "7-1", "later/7-1.json")),
    *(f"refused/{name}" for name in ("", "7-1.json.bak")),
    *(f"erasures/{name}" for name in ("", ".keep", "00000001.json.bak", "copy/00000001.json")),
    *(f"data/{name}" for name in ("", ".keep", "old/part-0.parquet")),
    *(f"attempts/{name}" for name in ("", ".keep", "old/request.json")),
    *(f"manifests/{name}" for name in ("", "00000001.json.bak")),
    *(f"ledger/{name}" for name in ("", "00000001-abc123.json.bak")),
    *(f"changes/{name}" for name in ("", "old/part-0.parquet")),
]


def test_objects_with_foreign_names_are_left_alone(published: FeedOnStandIn) -> None:
    def foreign() -> set[str]:
        found = {info.name.removeprefix(f"{published.feed.feed}/") for info in published.services.store.objects("")}
        return found & set(FOREIGN)

    for name in FOREIGN:
        published.services.store.put(f"{published.feed.feed}/{name}", "not one of ours")
    assert not plan_recovery(published.services).changes_anything
    published.publish_to_check(published.land(8, SECOND), run_id="dies")
    recover(published.services, dag_id="other", run_id="other")
    published.publish(published.land(8, SECOND), run_id="again")
    assert [w.delivery.snapshot_id for w in read_state(published.services).waiting] == []
    assert prune(published.services) == []
    published.roll_back(1)
    assert published.rows() == expected(*FIRST)
    assert foreign() == set(FOREIGN)


def test_data_that_could_not_be_deleted_is_deleted_after_the_next_attempt(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_and_discard() -> str:
        spec, _ = published.publish_to_check(published.land(8, SECOND), run_id="dies")
        recover(published.services, dag_id="other", run_id="other")
        assert published.services.current.read().intent is None
        return spec.attempt

    def folders() -> list[str]:
        return [folder.split("/")[-2] for folder in published.services.store.folders(published.services.layout.data)]

    live = folders()
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "delete_prefix", Mock(side_effect=TypeError("whatever it is")))
        left = fail_and_discard()
    assert folders() == [*live, left]
    fail_and_discard()
    assert folders() == live


def test_bytes_that_are_no_text_are_a_damaged_record(published: FeedOnStandIn) -> None:
    spec, _ = published.publish_to_check(published.land(8, SECOND))
    name = published.services.layout.request(spec.attempt)
    stored = published.services.store.read(name)
    assert stored
    changed = stored.text.encode().replace(published.feed.feed.encode(), b"\xff")
    published.storage.bucket("state").blob(name).upload_from_string(changed)
    recover(published.services, dag_id="other", run_id="other")
    goes_on(published, *SECOND, FIRST[1])
