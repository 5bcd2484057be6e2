"""Audits of a published feed on a real object store and the stand-in: what they find, cost and keep."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import pytest

from dedup_clone.audit import fingerprint_target as target_side
from dedup_clone.audit.choose_partitions import choose_partitions
from dedup_clone.audit.compare_fingerprints import compare_fingerprints
from dedup_clone.audit.fingerprint_files import fingerprint_files
from dedup_clone.audit.fingerprint_target import fingerprint_target
from dedup_clone.contract.billing import MIN_BYTES_BILLED
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, ContractViolation, LostRace
from dedup_clone.freshness.evaluation import find_incidents
from dedup_clone.settings.feed import ContentAuditSettings
from dedup_clone.state.audits import AuditOutcome, AuditRecord, Audits, AuditsFile
from dedup_clone.warehouse.jobs import Jobs
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from tests.contract.feed_state_reader import read_state

DAYS = [TODAY - timedelta(days=n) for n in range(3)]
ROWS = [row(7, product, day=day) for day in DAYS for product in range(4)]
EQUAL, UNEQUAL, OVER_BUDGET = AuditOutcome.EQUAL, AuditOutcome.UNEQUAL, AuditOutcome.OVER_BUDGET


def audit(world: FeedOnStandIn, day: date | None = None, *, run_id: str = "audit-1") -> tuple[AuditRecord, ...]:
    """All steps, as the DAG has them."""
    services = world.services
    chosen = choose_partitions(services, day)
    found = fingerprint_target(services, chosen.dates, run_id)
    files = {p.date: fingerprint_files(services, p.generation, p.date) for p in found if p.found}
    return compare_fingerprints(services, found, files)


def settings(world: FeedOnStandIn, **changes: Any) -> None:
    world.feed = world.feed.model_copy(update={"content_audit": ContentAuditSettings(**changes)})


def kept(world: FeedOnStandIn) -> Audits:
    return AuditsFile(world.services.store, world.feed.feed).read()


def outcomes(world: FeedOnStandIn) -> dict[date, AuditOutcome]:
    return {record.date: record.outcome for record in kept(world).records}


def change_target(world: FeedOnStandIn, statement: str) -> None:
    world.bigquery.query_and_wait(statement.format(target=f"warehouse.{world.feed.target}", day=f"DATE '{DAYS[0]}'"))


def incidents(world: FeedOnStandIn) -> list[str]:
    services = world.services
    return [incident.name for incident in find_incidents(services.now(), read_state(services))]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    world.publish(world.land(7, ROWS))
    return world


def test_a_published_partition_is_equal(published: FeedOnStandIn) -> None:
    (record,) = audit(published)
    assert (record.date, record.generation, record.outcome) == (DAYS[0], 1, EQUAL)
    assert record.found is not None
    assert record.found.rows == 4
    assert kept(published).records == (record,)
    assert incidents(published) == []


@pytest.mark.exhaustive
def test_rows_that_older_snapshots_left_are_equal_too(published: FeedOnStandIn) -> None:
    published.publish(published.land(8, [row(8, 1, 99), row(8, 50)]))
    (record,) = audit(published)
    assert (record.generation, record.outcome, record.found and record.found.rows) == (2, EQUAL, 5)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE {target} SET attr_value = 21 WHERE date = {day} AND product_id = 2", "4 rows, whose values differ"),
        pytest.param(
            "DELETE FROM {target} WHERE date = {day} AND product_id = 2",
            "target has 3 rows, the files have 4",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "UPDATE {target} SET attr_value = NULL WHERE date = {day} AND product_id = 2",
            "4 rows, whose values differ",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "INSERT INTO {target} SELECT * FROM {target} WHERE date = {day} AND product_id = 2",
            "target has 5 rows",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_what_is_wrong_in_bigquery_is_reported_until_it_is_right(
    published: FeedOnStandIn, statement: str, said: str
) -> None:
    change_target(published, statement)
    with pytest.raises(CheckFailed, match=r"does not hold what was published:\n  partition .* found \[\d rows, fing"):
        audit(published)
    assert outcomes(published) == {DAYS[0]: UNEQUAL}
    assert incidents(published) == [f"content_unequal-{DAYS[0]}"]
    services = published.services
    assert said in find_incidents(services.now(), read_state(services))[0].what
    (delivery,) = published.services.arrivals.deliveries()
    published.publish(delivery.name, replay=True, run_id="replay", reason="unequal")
    assert [r.outcome for r in audit(published, run_id="audit-2")] == [EQUAL]  # it is its turn again
    assert incidents(published) == []


def test_as_many_partitions_a_day_as_the_feed_says_take_turns(published: FeedOnStandIn) -> None:
    settings(published, partitions_per_day=2)
    found = [[record.date for record in audit(published, run_id=f"audit-{n}")] for n in range(2)]
    assert found == [DAYS[:2], [DAYS[2], DAYS[0]]]


def test_a_partition_can_be_asked_for(published: FeedOnStandIn) -> None:
    assert [record.date for record in audit(published, DAYS[2])] == [DAYS[2]]
    with pytest.raises(ConfigurationError, match=rf"name one of those that can: {DAYS[2]} to {DAYS[0]}"):
        choose_partitions(published.services, TODAY + timedelta(days=1))


def test_a_day_costs_no_more_than_its_budget_of_which_each_job_is_told_what_is_left(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry_run = Jobs.dry_run_bytes

    def dry_run_without_limit(jobs: Jobs, configuration: Mapping[str, Any]) -> int:
        assert "maximumBytesBilled" not in configuration["query"]
        return dry_run(jobs, configuration)

    monkeypatch.setattr(Jobs, "dry_run_bytes", dry_run_without_limit)
    settings(published, partitions_per_day=3, bytes_per_day=2 * MIN_BYTES_BILLED)
    assert len(audit(published)) == 2
    assert sum(kept(published).jobs.values()) == 2 * MIN_BYTES_BILLED
    jobs = [published.bigquery.get_job(job_id) for job_id in kept(published).jobs]
    assert {job.maximum_bytes_billed for job in jobs} == {2 * MIN_BYTES_BILLED, MIN_BYTES_BILLED}  # what is left
    with pytest.raises(CheckFailed, match=r"No partition was audited: .* \[20971520\] are spent today"):
        audit(published, run_id="audit-2")
    clock = published.now
    published.now = lambda: clock() + timedelta(days=1)  # type: ignore[method-assign]
    assert len(audit(published, run_id="audit-3")) == 2


def test_partitions_larger_than_the_budget_are_passed_over_and_kept_as_such(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = target_side._bytes_billed
    sizes = iter([1 << 50])
    monkeypatch.setattr(target_side, "_bytes_billed", lambda size: next(sizes, whole(size)))
    assert [(r.date, r.outcome) for r in audit(published)] == [(DAYS[0], OVER_BUDGET), (DAYS[1], EQUAL)]
    monkeypatch.setattr(target_side, "_bytes_billed", lambda size: 1 << 50)
    with pytest.raises(CheckFailed, match=r"larger than a whole day's budget: .*1125899906842624.*Raise this budget"):
        audit(published, run_id="audit-2")
    assert set(outcomes(published).values()) == {OVER_BUDGET}  # the turn goes on to others, if there are


def test_a_publish_in_between_is_noticed_and_the_partition_asked_again(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = published.land(8, [row(8, 1, 99)])
    ask, asked = target_side._wait_for_result, []

    def publish_meanwhile(services: Any, job_id: str) -> Any:
        found = ask(services, job_id)
        asked.append(job_id)
        if len(asked) == 1:
            published.publish(name)
        return found

    monkeypatch.setattr(target_side, "_wait_for_result", publish_meanwhile)
    (record,) = audit(published)
    assert (record.generation, record.outcome, len(asked)) == (2, EQUAL, 2)


def test_nothing_is_asked_while_a_swap_is_not_committed(published: FeedOnStandIn) -> None:
    spec = published.resolve(published.land(8, [row(8, 1, 99)]))
    published.deduplicate(spec)
    published.load(spec)
    published.swap(spec, published.check(spec))
    with pytest.raises(LostRace, match=r"a swap is being committed.*target_drift"):
        audit(published)
    published.commit(spec)
    assert [(r.generation, r.outcome) for r in audit(published)] == [(2, EQUAL)]


def test_a_retried_task_uses_the_job_that_it_made(published: FeedOnStandIn) -> None:
    for _ in range(2):
        fingerprint_target(published.services, (DAYS[0],), "audit-1")
    assert len(kept(published).jobs) == 1


def test_a_target_that_was_made_anew_is_read_anew_by_a_retried_task(published: FeedOnStandIn) -> None:
    target, staging = f"warehouse.{published.feed.target}", f"warehouse.{published.feed.staging}"
    (before,) = fingerprint_target(published.services, (DAYS[0],), "audit-1")
    labels = ", ".join(f"{label}" for label in published.bigquery.get_table(target).labels.items())
    published.bigquery.query_and_wait(f"DELETE FROM {staging} WHERE date = '{DAYS[0]}' AND product_id = 2")
    published.bigquery.query_and_wait(f"CREATE OR REPLACE TABLE {target} CLONE {staging} OPTIONS (labels = [{labels}])")
    (after,) = fingerprint_target(published.services, (DAYS[0],), "audit-1")
    assert before.generation == after.generation
    assert before.found
    assert after.found
    assert (before.found.rows, after.found.rows) == (4, 3)


def test_a_generation_that_was_pruned_meanwhile_is_told_from_a_wrong_one(published: FeedOnStandIn) -> None:
    found = fingerprint_target(published.services, (DAYS[0],), "audit-1")
    manifest = published.services.manifests.read(1)
    assert manifest.data_folder is not None
    published.services.store.delete_prefix(manifest.data_folder.removeprefix("gs://state/"))
    with pytest.raises(ContractViolation, match=r"\.parquet\] is gone. If a publish .* trigger the audit again"):
        fingerprint_files(published.services, found[0].generation, DAYS[0])


def test_a_file_that_cannot_be_read_is_named(published: FeedOnStandIn) -> None:
    services = published.services
    manifest, files = services.manifests.read(1), services.manifests.committed_files(1)
    assert files is not None
    broken = next(file for file in files.files if file.date == DAYS[0])
    services.store.put(f"{manifest.data_folder}{broken.path}".removeprefix("gs://state/"), "no Parquet")
    with pytest.raises(ContractViolation, match=rf"date={DAYS[0]}/.*\.parquet\] cannot be read: .*restore the object"):
        fingerprint_files(services, 1, DAYS[0])


def nothing_published(world: FeedOnStandIn) -> str:
    return "nothing was published yet"


def an_engine_without_files(world: FeedOnStandIn) -> str:
    world.feed = world.feed.model_copy(update={"engine": Engine.BIGQUERY})
    world.publish(world.land(7, ROWS))
    return r"was made by engine \[bigquery\], which leaves no files"


def a_row_policy(world: FeedOnStandIn) -> str:
    world.publish(world.land(7, ROWS))
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY own ON warehouse.{world.feed.target} GRANT TO ('user:a@example.com') "
        "FILTER USING (store_id = 1)"
    )
    return r"target has row or column policies \(own\)"


def only_ending_partitions(world: FeedOnStandIn) -> str:
    table = world.feed.table.model_copy(update={"retention_days": 2})
    world.feed = world.feed.model_copy(update={"table": table})
    world.publish(world.land(7, ROWS[:4]))
    return "has no rows in partitions that exist for two more days"


@pytest.mark.parametrize("case", [nothing_published, an_engine_without_files, a_row_policy, only_ending_partitions])
def test_where_nothing_can_be_compared_it_says_why(world: FeedOnStandIn, case: Callable[[FeedOnStandIn], str]) -> None:
    reason = case(world)
    chosen = choose_partitions(world.services, None)
    assert chosen.dates == ()
    assert re.search(reason, chosen.reason)


@pytest.mark.exhaustive
def test_what_was_found_of_dates_that_are_gone_is_dropped(published: FeedOnStandIn) -> None:
    audit(published)
    (record,) = kept(published).records
    old = dataclasses.replace(record, date=TODAY - timedelta(days=900), outcome=UNEQUAL)
    AuditsFile(published.services.store, published.feed.feed).change(
        lambda audits: dataclasses.replace(audits, records=(old, *audits.records))
    )
    audit(published, run_id="audit-2")
    assert sorted(outcomes(published)) == [DAYS[1], DAYS[0]]
