"""Records are lost: `deploy recover`, and what the runbook tells to do. And what a damaged record stops."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.api_core.exceptions import ServiceUnavailable

from dedup_clone.contract.errors import BootstrapRefused, CheckFailed, ContractViolation, LostRace
from deploy.__main__ import main
from testkit import operations, runs
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks, Watch
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from testkit.state_reader import DAMAGE
from tests.contract.publish.existing_tables import create_table, insert

ROWS = [row(8, 1, 21), row(7, 2)]
NINTH = [row(9, 2, 30)]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed with two generations."""
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    world.publish(world.land(8, [row(8, 1, 21)]))
    assert world.rows() == expected(*ROWS)
    return world


def goes_on(world: FeedOnStandIn) -> int:
    """Publish one more snapshot. Returns the generation."""
    record = world.publish(world.land(9, NINTH), run_id="goes on")
    assert world.rows() == expected(ROWS[0], *NINTH)
    return record.generation


def drop(world: FeedOnStandIn, *names: str) -> None:
    for name in names:
        world.bigquery.delete_table(f"warehouse.{name}")


@pytest.mark.parametrize(
    ("lost", "rewritten"),
    [
        ((), set()),
        (
            ("CURRENT", "manifests/"),
            {"CURRENT", "manifests/00000002.json", "manifests/00000002.files.json"},
        ),
        (("ledger/", "arrivals/"), set()),
    ],
    ids=["nothing", "what a publish needs", "reports"],
)
def test_records_are_written_again_from_what_is_left_and_the_feed_goes_on(
    published: FeedOnStandIn, lost: tuple[str, ...], rewritten: set[str]
) -> None:
    published.state.lose(*lost)
    before = set(published.state.names())
    plan = operations.recover_records(published)
    assert (set(published.state.names()) - before, plan.changes_anything) == (rewritten, bool(rewritten))
    assert published.rows() == expected(*ROWS)
    assert not operations.recover_records(published).changes_anything
    assert goes_on(published) == 3
    published.roll_back(2)
    assert published.rows() == expected(*ROWS)


@pytest.mark.parametrize("lost", [("",), ("manifests/", "attempts/"), ("CURRENT", "manifests/", "attempts/")])
def test_without_any_record_of_what_is_live_a_feed_goes_on_from_its_table(
    published: FeedOnStandIn, lost: tuple[str, ...]
) -> None:
    published.state.lose(*lost)
    with pytest.raises(BootstrapRefused):
        runs.bootstrap(published).until("preview")
    if "" in lost:
        with pytest.raises(CheckFailed, match="target_is_parent"):
            published.resolve(published.land(9, NINTH))
        published.state.lose("")
    plan = operations.recover_records(published)
    assert plan.removes_label
    assert "dedup_clone_bootstrap: it makes target's rows the first generation" in plan.next_step
    record = runs.bootstrap(published, reason="records are lost").finish()
    assert (record.generation > 2) == ("" not in lost), "numbers that any record still names are not used again"
    assert published.rows() == expected(*ROWS)
    goes_on(published)


def test_a_bootstrap_that_fails_leaves_the_files_of_generations_whose_records_are_lost(
    published: FeedOnStandIn,
) -> None:
    published.state.lose("manifests/00000002", "attempts/")
    operations.recover_records(published)
    run = runs.bootstrap(published).until("dedup")
    assert not run.end()
    assert published.state.generations("data")[:2] == [1, 2]
    assert published.state.names(f"data/{run.attempt}-export") == []


def test_a_feed_without_current_and_label_begins_anew_by_a_bootstrap(published: FeedOnStandIn) -> None:
    published.state.lose("CURRENT")
    published.label(dedup_clone_generation=None)
    with pytest.raises(ContractViolation, match="deploy recover"):
        runs.bootstrap(published).until("preview")
    assert "trigger dedup_clone_bootstrap" in operations.recover_records(published).next_step
    assert runs.bootstrap(published).finish().generation == 3
    assert published.rows() == expected(*ROWS)


def test_an_old_version_of_current_is_corrected_and_a_removed_label_put_back_by_hand(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    old = world.state.text("CURRENT")
    assert old
    world.publish(world.land(8, [row(8, 1, 21)]))
    world.state.write("CURRENT", old)
    operations.recover_records(world)
    assert world.state.generation == 2
    world.label(dedup_clone_generation=None)
    plan = operations.recover_records(world)
    assert (plan.changes_anything, "--set_label dedup_clone_generation:2 " in plan.next_step) == (False, True)


def test_a_swap_that_was_not_committed_is_left_to_the_next_run(published: FeedOnStandIn) -> None:
    run = runs.publish(published, published.land(9, NINTH)).until("swap")
    assert "The next run commits" in operations.recover_records(published).next_step
    published.state.lose("CURRENT")
    operations.recover_records(published)
    assert published.state.generation == run.plan.generation
    published.publish(published.land(10, [row(10, 2, 40)]))
    assert published.rows() == expected(ROWS[0], row(10, 2, 40))


@pytest.mark.parametrize("lost", ["attempt.json", "swap.json", "candidate.json"])
def test_a_swap_whose_own_records_are_lost_is_committed_or_taken_over(published: FeedOnStandIn, lost: str) -> None:
    run = runs.publish(published, published.land(9, NINTH)).until("swap")
    published.state.lose(f"attempts/{run.attempt}/{lost}")
    with pytest.raises(ContractViolation):
        operations.recover_lease(published)
    plan = operations.recover_records(published)
    assert plan.removes_label == (lost == "candidate.json")
    if plan.removes_label:
        runs.bootstrap(published).finish()
    published.publish(published.land(10, [row(10, 2, 40)]))
    assert published.rows() == expected(ROWS[0], row(10, 2, 40))


def test_a_run_that_lost_its_lease_to_a_recovery_ends(published: FeedOnStandIn) -> None:
    run = runs.publish(published, published.land(9, NINTH)).until("dedup")
    published.state.lose("manifests/00000002.json", "attempts/00000002")
    assert operations.recover_records(published).removes_label
    with pytest.raises(LostRace):
        run.until("load")


def test_lost_arrivals_are_registered_again_and_not_published_again(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(published, TaskApi(monkeypatch), monkeypatch)
    names = published.state.deliveries("arrivals")
    runs_in_airflow = [f"publish__{name.replace('-', '__')}" for name in names]
    for run_id in runs_in_airflow:
        watch.end(run_id, "success")
    published.state.lose("arrivals/", "ledger/")
    watch.later = timedelta(hours=1)
    assert set(watch.register()) <= set(runs_in_airflow)  # the next task starts no run that exists
    assert published.state.deliveries("arrivals") == names
    record = published.publish(published.land(9, NINTH))
    assert [delivery.snapshot_id for delivery in record.deliveries] == [9]


def test_a_deleted_target_is_made_again_from_staging(published: FeedOnStandIn) -> None:
    name = f"warehouse.{published.feed.target}"
    before = published.bigquery.get_table(name)
    run = runs.publish(published, published.land(9, NINTH)).until("load")  # staging has later rows than target
    drop(published, published.feed.target)
    operations.recover_records(published)
    assert published.rows() == expected(*ROWS)
    after = published.bigquery.get_table(name)
    assert (after.labels, after.time_partitioning) == (before.labels, before.time_partitioning)
    assert after.clone_definition.base_table_reference.table_id == published.feed.staging
    run.finish()
    assert published.rows() == expected(ROWS[0], *NINTH)


@pytest.mark.parametrize("has_copy", [False, True])
def test_tables_that_are_gone_for_good_are_made_from_landing_or_from_a_copy(
    published: FeedOnStandIn, has_copy: bool
) -> None:
    drop(published, published.feed.target, published.feed.staging)
    assert "restore it" in operations.recover_records(published).next_step
    with pytest.raises(CheckFailed, match="target_is_parent"):
        published.publish(published.land(9, NINTH), run_id="too early")
    operations.recover_records(published, table_is_gone=True)
    if has_copy:
        create_table(published)
        insert(published, ROWS)
        runs.bootstrap(published).finish()
        assert published.rows() == expected(*ROWS)
    published.publish(published.state.deliveries("arrivals")[-1], run_id="from landing")
    assert published.rows() == expected(ROWS[0], *NINTH)


def test_a_plan_that_is_not_true_any_more_is_not_carried_out(published: FeedOnStandIn) -> None:
    published.state.lose("CURRENT")
    with pytest.raises(LostRace):
        operations.recover_after(published, lambda: published.state.lose("manifests/00000002"))
    assert published.state.current == {}


def test_the_command_shows_the_plan_and_carries_it_out_only_when_told_to(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("deploy.recover.feed_services", lambda feed, dags: published.services)
    published.state.lose("CURRENT")
    before = published.state.names()
    assert main(["recover", published.feed.feed]) == 0
    assert published.state.names() == before
    assert "--apply" in capsys.readouterr().out
    assert main(["recover", published.feed.feed, "--apply"]) == 0
    assert published.state.generation == 2
    monkeypatch.undo()
    assert main(["recover", "no_such_feed"]) == 1


# Damage: an object is written as a whole, so only somebody else can have damaged it.


@pytest.mark.parametrize(
    "name",
    [
        "CURRENT",
        "manifests/00000002.json",
        "attempts/{attempt}/attempt.json",
        "attempts/{attempt}/candidate.json",
    ],
)
def test_a_damaged_record_is_named_and_the_feed_goes_on_with_its_former_version(
    published: FeedOnStandIn, name: str
) -> None:
    delivery = published.land(9, NINTH)
    run = runs.publish(published, delivery).until("check")
    name = name.format(attempt=run.attempt)
    former = published.state.text(name)
    assert former
    published.state.write(name, DAMAGE)
    with pytest.raises(ContractViolation, match=rf"/{name}\] is not JSON.*restore a former version"):
        published.publish(delivery, run_id="too early")
    assert published.rows() == expected(*ROWS)
    published.state.write(name, former)
    goes_on(published)


@pytest.mark.parametrize("damaged", ["checks_before.json", "spark_usage.json", "files", "manifest", "arrivals"])
def test_a_swap_is_committed_although_what_only_the_ledger_reads_is_damaged(
    published: FeedOnStandIn, damaged: str
) -> None:
    run = runs.publish(published, published.land(9, NINTH)).until("swap")
    taken_at = published.state.lease["taken_at"] if published.state.lease else None
    files = published.state.read(f"attempts/{run.attempt}/candidate.json")["file_list_uri"]
    if damaged == "arrivals":  # the landed objects, too, so that nothing registers the deliveries again
        published.state.lose("arrivals/")
        for blob in published.storage.list_blobs("landing", prefix=f"{published.feed.landing.prefix}/"):
            blob.delete()
    elif damaged == "files":
        published.state.lose(files.removeprefix(f"gs://state/{published.feed.feed}/"))
    else:
        name = "manifests/00000002.json" if damaged == "manifest" else f"attempts/{run.attempt}/{damaged}"
        published.state.write(name, DAMAGE)
    operations.recover_lease(published)
    assert published.state.lease is None
    record = published.state.ledger()[-1]
    assert (record["outcome"], record["deliveries"][-1]["snapshot_id"]) == ("published", 9)
    assert (record["cost"] is None) == (damaged == "spark_usage.json")
    assert (record["lag_s"] is None) == (damaged in ("manifest", "arrivals"))
    assert (record["arrived_at"] == taken_at) == (damaged == "arrivals")
    published.publish(published.land(10, [row(10, 2, 40)]))
    assert published.rows() == expected(ROWS[0], row(10, 2, 40))


def test_damaged_reports_stop_no_publish(published: FeedOnStandIn) -> None:
    bucket = published.storage.bucket(published.places.state)
    others = (f"_freshness/{published.feed.feed}.json", f"_reporting/ledger/{published.feed.feed}/lost.json")
    for name in ("AUDITS", "incidents.json"):
        published.state.write(name, DAMAGE)
    published.state.damage("ledger/")
    for name in others:
        bucket.blob(name).upload_from_string(DAMAGE)
    runs.publish(published, published.land(9, NINTH), run_id="dies").until("check")
    published.publish(published.land(10, [row(10, 2, 40)]))
    assert published.rows() == expected(ROWS[0], row(10, 2, 40))


def test_a_commit_needs_neither_its_costs_nor_the_results_of_its_checks_nor_the_parents_manifest(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ServiceUnavailable("nothing is shown")

    run = runs.publish(published, published.land(9, NINTH)).until("swap")
    for name in ("cost_of", "divide_into_phases"):
        monkeypatch.setattr(f"dedup_clone.publish.ledger_record.{name}", fail)
    record = run.finish()
    assert (record.cost, record.phases, record.lag_s is None) == (None, {}, False)
    published.state.damage("manifests/00000002.json")
    run.step("commit")
    assert (run.record, published.state.lease) == (record, None)
    tasks = DagTasks(published, TaskApi(monkeypatch), monkeypatch, "publish")
    assert tasks.execute("prune_state") == [], "nothing is deleted until the next publish"


FOREIGN = [
    *(f"arrivals/{name}" for name in ("placeholder", "7-1.json.bak", "7-1", "later/7-1.json")),
    *("refused/7-1.json.bak", "data/.keep", "data/old/part-0.parquet", "attempts/.keep", "attempts/old/attempt.json"),
    *("erasures/.keep", "erasures/00000001.json.bak", "erasures/copy/00000001.json"),
    *("manifests/00000001.json.bak", "ledger/00000001-abc123.json.bak", "changes/old/part-0.parquet"),
]


def test_objects_with_foreign_names_are_left_alone(published: FeedOnStandIn) -> None:
    for name in FOREIGN:
        published.state.write(name, "not one of ours")
    assert not operations.recover_records(published).changes_anything
    runs.publish(published, published.land(9, NINTH), run_id="dies").until("check")
    operations.recover_lease(published)
    goes_on(published)
    operations.delete_obsolete(published)
    published.roll_back(2)
    assert published.rows() == expected(*ROWS)
    assert set(published.state.names()) >= set(FOREIGN)
