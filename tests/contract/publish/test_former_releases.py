"""State as earlier releases wrote it: it is read, published on, and rolled back to.

Each file in `former_states/` has the objects that one release left in the state bucket (see `record_state.py`).
"""

from __future__ import annotations

import base64
import json

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import LoadJobConfig
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.freshness.verdict import read_verdict
from dedup_clone.page.feed_view import index_view
from dedup_clone.publish.lost_records.recovery_plan import plan_recovery
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.recovery import recover
from dedup_clone.state.audits import AuditsFile
from dedup_clone.state.index import IndexFile
from dedup_clone.state.ledger import Outcome
from dedup_clone.state.retired import TargetAction
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from tests.contract.feed_state_reader import read_state
from tests.contract.publish import rebuild_steps, retirement_steps
from tests.contract.publish.archive import Archive
from tests.contract.publish.record_state import FEED, RETENTION_DAYS, ROWS, STATES, THIRD, audit, recorded_feed
from tests.contract.watchdog import Watchdog


@pytest.fixture(params=sorted(path.stem for path in STATES.glob("*.json")))
def former(request: pytest.FixtureRequest, clients: tuple[Storage, BigQuery]) -> FeedOnStandIn:
    """The feed as the release left it: its objects, staging, and target with the labels of the last swap."""
    world = recorded_feed(*clients)
    for prefix in (f"{FEED}/", f"_reporting/ledger/{FEED}/", f"_freshness/{FEED}."):
        world.services.store.delete_prefix(prefix)
    world.services.landing.store.delete_prefix(f"{FEED}/")
    for name, content in json.loads((STATES / f"{request.param}.json").read_text())["objects"].items():
        data = content["text"].encode() if "text" in content else base64.b64decode(content["base64"])
        world.storage.bucket("state").blob(name).upload_from_string(data)
    make_tables(world)
    return world


def make_tables(world: FeedOnStandIn) -> None:
    services = world.services
    intent = services.current.read().intent
    assert intent
    swap = find_swap(services, intent.attempt)
    candidate = services.manifests.candidate(intent.attempt)
    assert swap
    assert candidate
    assert candidate.manifest
    for table in (world.feed.staging, world.feed.target):
        services.warehouse.alterations.drop(table)
    services.warehouse.create_staging(services.names, candidate.manifest.table)
    config = LoadJobConfig(source_format="PARQUET")
    world.bigquery.load_table_from_uri(
        f"{candidate.manifest.data_folder}date=*", f"warehouse.{world.feed.staging}", job_config=config
    ).result()
    labels = {"generation": swap.generation, "snapshot": swap.snapshot, "manifest": swap.manifest}
    listed = ", ".join(f"('dedup_clone_{name}', '{value}')" for name, value in labels.items())
    world.bigquery.query_and_wait(
        f"CREATE TABLE warehouse.{world.feed.target} CLONE warehouse.{world.feed.staging} "
        f"OPTIONS (partition_expiration_days = {RETENTION_DAYS}, labels = [{listed}])"
    )


def test_what_a_former_release_left_is_recovered_published_on_and_rolled_back_to(former: FeedOnStandIn) -> None:
    assert former.rows() == expected(*ROWS)
    recover(former.services, dag_id="other", run_id="other")
    current = former.services.current.read()
    assert (current.generation, current.intent) == (6, None)
    audit(former, "audit-2")
    assert [record.generation for record in AuditsFile(former.services.store, FEED).read().records] == [6, 5]
    former.publish(former.land(12, [row(12, 12)]))
    assert former.rows() == expected(*ROWS, row(12, 12))
    former.roll_back(6)
    assert former.rows() == expected(*ROWS)
    former.roll_back(3)
    assert former.rows() == expected(*THIRD)


def test_page_and_watchdog_read_what_a_former_release_left(
    former: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def checked() -> list[list[str]]:
        watchdog.check()
        index = IndexFile(former.services.store, FEED).read().index
        assert index
        view = index_view(index, read_verdict(former.services.store, FEED), former.now())
        return [[entry["kind"], entry["snapshot_id"]] for entry in view["publishes"]]

    watchdog = Watchdog(former, monkeypatch, caplog)
    before = checked()
    assert sorted(before) == [["publish", "10"], ["publish", "7"], ["publish", "9"], ["rollback", "7"]]
    recover(former.services, dag_id="other", run_id="other")
    former.publish(former.land(12, [row(12, 12)]))
    assert sorted(checked()) == sorted([*before, ["publish", "11"], ["publish", "12"]])


@pytest.mark.exhaustive
def test_dags_that_the_former_release_lacked_work_on_what_it_left(former: FeedOnStandIn) -> None:
    recover(former.services, dag_id="other", run_id="other")
    assert not plan_recovery(former.services).changes_anything
    archive = Archive(former)
    archive.put(4, [row(4, 4, 40)])
    assert not archive.land_next()
    former.publish(*archive.notice())
    assert former.rows() == expected(*ROWS, row(4, 4, 40))
    former.resolve_erasure("product_id\n4\n")
    recover(former.services, dag_id="other", run_id="other")
    former.feed = rebuild_steps.as_text(former.feed)
    rebuild_steps.rebuild(former, renamed={"attr_value": "value"})
    values = rebuild_steps.select(former, "product_id, value")
    assert values == sorted((r["product_id"], str(r["attr_value"])) for r in (*ROWS, row(4, 4, 40)))
    retirement_steps.retire(former, TargetAction.EXPORT)
    assert retirement_steps.kept(former) == ["RETIRED", "data", "ledger"]


def test_what_a_former_release_recorded_is_read(former: FeedOnStandIn) -> None:
    services = former.services
    records = services.ledger.read_last(9)
    assert [(r.generation, r.outcome, r.restores) for r in records] == [
        (1, Outcome.PUBLISHED, None),
        (2, Outcome.REFUSED, None),
        (3, Outcome.PUBLISHED, None),
        (4, Outcome.PUBLISHED, 1),
        (5, Outcome.PUBLISHED, None),
    ]
    index = IndexFile(services.store, FEED).read().index
    assert index
    assert (index.generation, index.records[-1]) == (5, records[-1])
    assert AuditsFile(services.store, FEED).read().last
    assert read_state(services).live == records[-1]
    arrived = [services.arrivals.read(delivery).arrived_at for delivery in services.arrivals.deliveries()]
    assert len(arrived) == 5
    (refused,) = services.arrivals.refused()
    assert services.arrivals.refusal(refused)
    assert services.manifests.read(5).digest == services.current.read().manifest_digest


def test_what_a_later_release_wrote_is_refused_with_the_release_to_deploy(former: FeedOnStandIn) -> None:
    store, name = former.services.store, former.services.layout.current
    stored = store.read(name)
    assert stored
    store.put(name, json.dumps({**json.loads(stored.text), "release": "9.1.0", "owner": "somebody"}))
    with pytest.raises(ContractViolation, match=r"CURRENT\].*\['owner'\].*deploy at least version \[9\.1\.0\]"):
        recover(former.services, dag_id="other", run_id="other")
