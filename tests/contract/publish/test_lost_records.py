"""Records are lost or damaged: `make recover`, and what the runbook tells to do, step by step."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import BootstrapRefused, CheckFailed, ContractViolation, LaterRelease, LostRace
from dedup_clone.orchestration.shared.publish_run import publish_run_id
from dedup_clone.orchestration.watch.publish_runs import REPEAT_AFTER
from dedup_clone.publish.lost_records.recovery_plan import RecoveryPlan, carry_out, plan_recovery
from dedup_clone.publish.records.attempt_records import find_check_results
from dedup_clone.publish.records.ledger_table import ledger_row
from dedup_clone.publish.recovery import recover as recover_lease
from dedup_clone.state.pending_changes import PendingChanges, PendingChangesFolder
from dedup_clone.state.reporting_backlog import ReportingBacklog
from dedup_clone.state.store import ObjectStore
from deploy import recover as command
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, Places, expected, row
from tests.contract.new_feeds import new_feed
from tests.contract.publish import bootstrap_steps as steps
from tests.contract.publish.lost_objects import DAMAGE, damage, lose, path
from tests.contract.watch import Watch

ROWS = [row(8, 1, 21), row(7, 2)]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed with two generations."""
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    world.publish(world.land(8, [row(8, 1, 21)]))
    assert world.rows() == expected(*ROWS)
    return world


def objects(world: FeedOnStandIn) -> dict[str, int]:
    return {info.name: info.object_generation for info in world.services.store.objects(path(world, ""))}


def changed_names(world: FeedOnStandIn, plan: RecoveryPlan) -> list[str]:
    return [change.name.removeprefix(path(world, "")) for change in plan.changes]


def recover(world: FeedOnStandIn, **options: bool) -> RecoveryPlan:
    """Recover, and require that the plan changed nothing and that nothing is left to be recovered."""
    before, label = objects(world), world.live()
    plan = plan_recovery(world.services, **options)
    assert (objects(world), world.live()) == (before, label)
    carry_out(world.services, plan, **options)
    assert not plan_recovery(world.services, **options).changes_anything
    return plan


def publish_by_watch(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """The watch DAG's sensor. Airflow has the runs of what is published, which succeeded."""
    watch = Watch(world, monkeypatch)
    for delivery in world.services.arrivals.deliveries():
        watch.end(publish_run_id(delivery), "success")
    return watch


def live_deliveries(world: FeedOnStandIn) -> tuple[Delivery, ...]:
    return world.services.manifests.read(world.services.current.read().generation or 0).deliveries


def publish_one_more(world: FeedOnStandIn) -> int:
    record = world.publish(world.land(9, [row(9, 2, 30)]))
    assert world.rows() == expected(ROWS[0], row(9, 2, 30))
    return record.generation


@pytest.mark.exhaustive
def test_sound_records_are_left_as_they_are(published: FeedOnStandIn) -> None:
    plan = recover(published)
    assert (plan.changes, plan.unknown, plan.removes_label) == ((), (), False)


def test_a_feed_that_never_published_is_left_as_it_is(world: FeedOnStandIn) -> None:
    assert "land a snapshot" in recover(world).next_step


@pytest.mark.exhaustive
def test_records_that_are_lost_in_part_are_written_again_from_the_attempts(published: FeedOnStandIn) -> None:
    lose(published, "CURRENT", "manifests/")
    before = published.rows()
    plan = recover(published)
    assert changed_names(published, plan) == [
        "manifests/00000001.json",
        "manifests/00000001.files.json",
        "manifests/00000002.json",
        "manifests/00000002.files.json",
        "CURRENT",
    ]
    assert any("held the lease" in item for item in plan.unknown)
    assert published.rows() == before
    assert publish_one_more(published) == 3
    published.roll_back(2)
    assert published.rows() == expected(*ROWS)


def test_damaged_records_are_written_again_or_deleted(published: FeedOnStandIn) -> None:
    damage(published, "CURRENT", "manifests/00000002", "STAGING", "arrivals/", "ledger/")
    plan = recover(published)
    assert {change.text is None for change in plan.changes if "/arrivals/" in change.name} == {True}
    assert "STAGING" in changed_names(published, plan)
    assert publish_one_more(published) == 3


def test_only_the_live_generation_is_exported_when_no_copy_of_a_file_list_is_left(published: FeedOnStandIn) -> None:
    store = published.services.store
    for info in store.objects(published.services.layout.attempts):
        if "/files-" in info.name:
            store.delete_prefix(info.name)
    damage(published, "manifests/")
    reasons = {c.name: c.reason for c in plan_recovery(published.services).changes if c.text is None}
    assert reasons == {
        path(published, "manifests/00000001.files.json"): "damaged, and no copy is left: no rollback can load the "
        "generation's files",
        path(published, "manifests/00000002.files.json"): "damaged, and no copy is left: the next publish exports "
        "target",
    }


@pytest.mark.exhaustive
def test_an_old_version_of_current_is_corrected(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    old = world.services.store.read(path(world, "CURRENT"))
    assert old is not None
    world.publish(world.land(8, [row(8, 1, 21)]))
    world.services.store.put(path(world, "CURRENT"), old.text)
    plan = recover(world)
    assert "names generation [1], and target holds generation [2]" in plan.changes[-1].reason
    assert publish_one_more(world) == 3


@pytest.mark.exhaustive
def test_a_swap_that_was_not_committed_is_left_to_the_next_run(published: FeedOnStandIn) -> None:
    spec, checked = published.publish_to_check(published.land(9, [row(9, 2, 30)]))
    published.swap(spec, checked)
    assert "The next run commits" in recover(published).next_step
    lose(published, "CURRENT")
    assert changed_names(published, recover(published))[-1] == "CURRENT"
    assert published.services.current.read().generation == spec.generation
    published.publish(published.land(10, [row(10, 2, 40)]))
    assert published.rows() == expected(ROWS[0], row(10, 2, 40))


@pytest.mark.parametrize("damaged", ["swap.json", "candidate.json"])
def test_a_swap_whose_own_records_are_damaged_is_committed_or_taken_over(
    published: FeedOnStandIn, damaged: str
) -> None:
    spec, checked = published.publish_to_check(published.land(9, [row(9, 2, 30)]))
    published.swap(spec, checked)
    damage(published, f"attempts/{spec.attempt}/{damaged}")
    with pytest.raises(ContractViolation, match=r"run `make recover`|is not JSON"):
        recover_lease(published.services, dag_id="other", run_id="other")
    plan = recover(published)
    assert plan.removes_label == (damaged == "candidate.json")
    if plan.removes_label:
        steps.bootstrap(published)
    else:
        assert published.services.current.read().generation == spec.generation
    published.publish(published.land(10, [row(10, 2, 40)]))
    assert published.rows() == expected(ROWS[0], row(10, 2, 40))


def test_damaged_reports_and_records_of_the_lease_are_deleted_or_made_again(published: FeedOnStandIn) -> None:
    services, store, feed = published.services, published.services.store, published.feed.feed
    record = services.ledger.read_last(1)[0]
    spec, _ = published.publish_to_check(published.land(9, [row(9, 2, 30)]))
    backlog, waiting = ReportingBacklog(store), PendingChangesFolder(store, feed)
    results = [find_check_results(services, record.attempt, phase) for phase in ("before", "after")]
    backlog.add(feed, record.attempt, ledger_row(record, tuple(r for r in results if r)))
    row_before = store.read(backlog.name(feed, record.attempt))
    uris = f"{services.layout.changes_folder(record.attempt)}uris.txt"
    store.put(uris, "")
    changes = PendingChanges(record.attempt, record.generation, TODAY, uris)
    waiting.add(changes)
    store.put(services.layout.incident("lease_held"), "{}")
    store.put(services.layout.audits, "{}")
    names = [
        *(services.layout.candidate(spec.attempt), services.layout.request(spec.attempt)),
        *(services.layout.check_results(spec.attempt, "before"), services.layout.swap_spec(spec.attempt)),
        *(services.layout.incident("lease_held"), services.layout.audits, f"_status/{feed}.json"),
        *(backlog.name(feed, record.attempt), waiting.name(record.attempt)),
    ]
    for name in names:
        store.put(name, DAMAGE)
    plan = plan_recovery(services)
    assert {change.name for change in plan.changes} == set(names)
    carry_out(services, plan)
    assert not plan_recovery(services).changes_anything
    assert row_before
    assert store.read(backlog.name(feed, record.attempt)).text == row_before.text
    assert [stored.changes for stored in waiting.read()] == [changes]
    waiting.remove(changes)
    recover_lease(services, dag_id="other", run_id="other")
    published.publish(published.land(10, [row(10, 2, 40)]))
    assert published.rows() == expected(ROWS[0], row(10, 2, 40))


def test_a_run_that_lost_its_lease_to_a_recovery_ends(published: FeedOnStandIn) -> None:
    spec = published.resolve(published.land(9, [row(9, 2, 30)]))
    published.deduplicate(spec)
    damage(published, "manifests/00000002.json")
    lose(published, "attempts/00000002")
    assert recover(published).removes_label
    with pytest.raises(LostRace):
        published.load(spec)


@pytest.mark.parametrize(
    "lost",
    [
        ("",),
        pytest.param(("manifests/", "attempts/"), marks=pytest.mark.exhaustive),
        pytest.param(("CURRENT", "manifests/", "attempts/"), marks=pytest.mark.exhaustive),
    ],
)
def test_without_any_record_of_what_is_live_a_feed_goes_on_from_its_table(
    published: FeedOnStandIn, lost: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = publish_by_watch(published, monkeypatch)
    lose(published, *lost)
    with pytest.raises(BootstrapRefused, match=r"records are lost.*make recover|publishes already"):
        steps.bootstrap(published)
    plan = recover(published)
    assert plan.removes_label
    assert any("excluded by a rollback" in item for item in plan.unknown)
    assert "_bootstrap without a source table" in plan.next_step
    assert published.rows() == expected(*ROWS)
    record = steps.bootstrap(published, reason="records are lost")
    assert (record.generation > 2) == ("" not in lost)  # numbers that any record still names are not used again
    assert published.rows() == expected(*ROWS)
    watch.register()
    watch.later = REPEAT_AFTER
    (run_id,) = watch.register()
    published.publish(published.services.arrivals.deliveries()[-1].name, run_id=run_id)
    assert [d.snapshot_id for d in live_deliveries(published)] == [7, 8]
    watch.airflow.runs.clear()
    publish_one_more(published)


def test_without_its_records_a_feed_publishes_nothing_over_its_table(published: FeedOnStandIn) -> None:
    lose(published, "")
    with pytest.raises(CheckFailed, match="target_is_parent"):
        published.resolve(published.land(9, [row(9, 3)]))
    assert published.rows() == expected(*ROWS)


@pytest.mark.exhaustive
def test_arrivals_that_are_lost_are_registered_again_and_not_published_again(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = publish_by_watch(published, monkeypatch)
    lose(published, "arrivals/", "ledger/")
    watch.later = REPEAT_AFTER
    assert watch.register() == []
    assert len(published.services.arrivals.deliveries()) == 2
    record = published.publish(published.land(9, [row(9, 2, 30)]))
    assert [delivery.snapshot_id for delivery in record.deliveries] == [9]
    assert published.rows() == expected(ROWS[0], row(9, 2, 30))


def test_a_record_of_a_later_release_is_not_replaced(world: FeedOnStandIn) -> None:
    world.services.store.put(path(world, "CURRENT"), '{"format_version": 99, "release": "9.0.0"}')
    with pytest.raises(LaterRelease, match=r"deploy at least version \[9"):
        plan_recovery(world.services)


def test_a_plan_that_is_not_true_any_more_is_not_carried_out(published: FeedOnStandIn) -> None:
    lose(published, "CURRENT")
    plan = plan_recovery(published.services)
    damage(published, "STAGING")
    with pytest.raises(LostRace, match="changed since the plan was made"):
        carry_out(published.services, plan)
    assert published.services.store.read(path(published, "CURRENT")) is None


def test_a_deleted_target_is_made_again_from_staging(published: FeedOnStandIn) -> None:
    before = published.services.warehouse.table(published.feed.target)
    spec = published.resolve(published.land(9, [row(9, 2, 30)]))
    published.deduplicate(spec)
    published.load(spec)  # staging has later rows than target
    published.services.warehouse.alterations.drop(published.feed.target)
    assert recover(published).swap is not None
    assert published.rows() == expected(*ROWS)
    after = published.services.warehouse.table(published.feed.target)
    assert before
    assert after
    assert (after.labels, after.clone_of, after.partition_column) == (before.labels, before.clone_of, "date")
    published.swap(spec, published.check(spec))
    published.commit(spec)
    assert published.rows() == expected(ROWS[0], row(9, 2, 30))


@pytest.mark.exhaustive
def test_a_deleted_dataset_is_restored_and_the_feed_goes_on(clients: tuple[Storage, BigQuery]) -> None:
    world = FeedOnStandIn(new_feed("undropped_"), *clients, Places(dataset="undropped"))
    world.bigquery.create_dataset("undropped")
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    world.publish(world.land(8, [row(8, 1, 21)]))
    name = world.land(9, [row(9, 2, 30)])
    world.bigquery.delete_dataset("undropped", delete_contents=True)
    with pytest.raises(CheckFailed, match=r"target_is_parent.*absent.*restore it"):
        world.publish(name, run_id="without a table")
    assert "restore it" in recover(world).next_step
    world.bigquery.query_and_wait("UNDROP SCHEMA undropped")
    assert world.rows() == expected(*ROWS)
    assert not recover(world).changes_anything
    world.publish(name, run_id="later")
    assert world.rows() == expected(ROWS[0], row(9, 2, 30))


@pytest.mark.exhaustive
def test_an_outage_during_a_publish_changes_nothing_and_a_later_run_goes_on(published: FeedOnStandIn) -> None:
    name = published.land(9, [row(9, 2, 30)])
    published.add_fault({"match": {"job_type": "load"}, "effect": "error", "times": 1})
    with pytest.raises(GoogleAPICallError):
        published.publish(name, run_id="cut off")
    assert published.rows() == expected(*ROWS)
    published.publish(name, run_id="later")
    assert published.rows() == expected(ROWS[0], row(9, 2, 30))


@pytest.mark.exhaustive
@pytest.mark.parametrize("has_copy", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_tables_that_are_gone_for_good_are_made_from_landing_or_from_a_copy(
    published: FeedOnStandIn, has_copy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = publish_by_watch(published, monkeypatch)
    services, copy = published.services, f"{published.feed.feed}_copy"
    services.warehouse.alterations.drop(published.feed.target)
    services.warehouse.alterations.drop(published.feed.staging)
    assert "restore it" in recover(published).next_step
    plan = recover(published, table_is_gone=True)
    assert any("no snapshot in landing" in item for item in plan.unknown)
    if has_copy:
        steps.create_table(published, copy)
        steps.insert(published, copy, ROWS)
        steps.bootstrap(published, source_table=copy)
        assert published.rows() == expected(*ROWS)
    watch.register()
    watch.later = REPEAT_AFTER
    (run_id,) = watch.register()
    published.publish(published.services.arrivals.deliveries()[-1].name, run_id=run_id)
    assert published.rows() == expected(*ROWS)
    assert publish_one_more(published) == 4 + has_copy


@pytest.mark.exhaustive
def test_a_label_that_somebody_removed_is_put_back_by_hand(published: FeedOnStandIn) -> None:
    published.services.warehouse.alterations.remove_label(published.feed.target, "dedup_clone_generation")
    plan = recover(published)
    assert not plan.changes_anything
    assert "--set_label dedup_clone_generation:2 " in plan.next_step


def test_a_feed_without_current_and_label_begins_anew_by_a_bootstrap(published: FeedOnStandIn) -> None:
    lose(published, "CURRENT")
    published.services.warehouse.alterations.remove_label(published.feed.target, "dedup_clone_generation")
    with pytest.raises(ContractViolation, match="make recover"):
        steps.bootstrap(published)
    assert "_bootstrap without a source table" in recover(published).next_step
    assert steps.bootstrap(published, reason="records are lost").generation == 3
    assert published.rows() == expected(*ROWS)


def test_the_command_shows_the_plan_and_carries_it_out_only_when_told_to(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "feed_services", lambda feed, dags: published.services)
    lose(published, "CURRENT")
    assert command.main([published.feed.feed]) == 0
    assert published.services.store.read(path(published, "CURRENT")) is None
    shown = capsys.readouterr().out
    assert f"Write gs://state/{published.feed.feed}/CURRENT: it is gone or damaged" in shown
    assert "Not known any more: the run that held the lease" in shown
    assert "APPLY=1" in shown
    assert command.main([published.feed.feed, "--apply"]) == 0
    assert published.services.current.read().generation == 2
    assert command.main([published.feed.feed]) == 0
    assert "There is nothing that this command writes." in capsys.readouterr().out


def test_the_command_says_which_feed_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["no_such_feed"]) == 1
    assert "no_such_feed.yaml" in capsys.readouterr().err


def test_a_prune_deletes_files_with_their_versions(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion without an object generation would leave a former version, which is billed."""
    deleted: list[object] = []
    bucket, folder = world.storage.bucket("state"), world.services.layout.data
    for number in range(2):
        world.services.store.put(f"{folder}part-{number}.parquet", "rows")
    delete = type(bucket).delete_blob

    def recorded(self: object, name: str, **options: object) -> None:
        deleted.append(options.get("generation"))
        delete(self, name, **options)

    monkeypatch.setattr(type(bucket), "delete_blob", recorded)
    assert ObjectStore(world.storage, "state").delete_prefix(folder) == len(deleted) == 2
    assert None not in deleted
