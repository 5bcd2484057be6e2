"""A feed changes its engine between two publishes: no gap, the same table, and files where Spark needs them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise, permutations

import pyarrow.parquet as pq
import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import FileList
from dedup_clone.contract.records import from_json
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.planning.parent_generation import export_folder
from dedup_clone.publish.prune import prune
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.feed import CdcSettings
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, YESTERDAY, row
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import PRODUCTS

OLDEST = TODAY - timedelta(days=PRODUCTS.retention_days - 1)
Way = tuple[Engine, SqlForm]
ENGINES: list[Way] = [(engine, SqlForm.QUALIFY) for engine in Engine]
FORMS: list[Way] = [(Engine.BIGQUERY, form) for form in SqlForm]
MODES = {
    Engine.CDC: UpdateIdMode.LAST_CHANGED,
    **dict.fromkeys([Engine.BIGQUERY, Engine.MERGE], UpdateIdMode.LAST_SEEN),
}


def course(ways: Sequence[Way]) -> list[Way]:
    """The ways in an order in which each follows each other one once: first, second, first, third, …"""
    order: list[Way] = []
    for number, way in enumerate(ways[:-1]):
        for other in ways[number + 1 :]:
            order += [way, other]
    order.append(ways[0])
    assert set(pairwise(order)) == set(permutations(ways, 2))
    return order


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedAgainstOracle:
    return FeedAgainstOracle(clients, feed_with_table(PRODUCTS))


def request_of(world: FeedAgainstOracle, spec: PublishSpec) -> DedupRequest:
    stored = world.services.store.read(world.services.layout.request(spec.attempt))
    assert stored
    return from_json(DedupRequest, stored.text, where="request")


def parent_files(world: FeedAgainstOracle, request: DedupRequest) -> FileList:
    assert request.parent
    stored = world.services.store.read(request.parent.file_list_uri.removeprefix("gs://state/"))
    assert stored
    return from_json(FileList, stored.text, where="files")


@pytest.mark.parametrize(
    "done",
    [
        [*ENGINES, ENGINES[0]],
        pytest.param(course(ENGINES), marks=pytest.mark.exhaustive),
        pytest.param(course([*ENGINES, *FORMS[1:]]), marks=pytest.mark.exhaustive),
    ],
    ids=["each engine", "each pair of engines", "each pair of engines and forms"],
)
def test_engines_and_forms_switch_without_a_gap(streaming_clients: tuple[Storage, BigQuery], done: list[Way]) -> None:
    """The feed file names another engine or form for each publish, and another mode where the engine needs it."""
    world = FeedAgainstOracle(streaming_clients, feed_with_table(PRODUCTS))
    expected = OracleState(world.oracle_table)
    for number, (engine, form) in enumerate(done, start=1):
        mode = MODES.get(engine, world.feed.update_id_mode)
        changes = {"engine": engine, "form": form, "update_id_mode": mode, "cdc": CdcSettings(max_changed_share=1)}
        world.feed = world.feed.model_copy(update=changes)
        expected.last_changed = mode is UpdateIdMode.LAST_CHANGED
        rows = [row(number, 1, number), row(number, 10 + number), row(number, 2, day=YESTERDAY)]
        name = world.land(number, rows)
        if number > 1:  # readers have the table of the engine before until the swap
            assert world.table_rows() == expected.table_rows()
        record = world.publish(name)
        expected = expected.apply([OracleDelivery(number, rows)], OLDEST)
        assert world.table_rows() == expected.table_rows()
        assert (record.engine, world.manifest().engine) == (engine, engine)
        assert (world.manifest().data_folder is not None) == engine.runs_spark
        assert record.cost
        assert (record.cost.streamed_bytes > 0) == (engine is Engine.CDC)
        written = {entry.plan_reason for entry in world.manifest().dates}
        assert any(f"(form {form})" in reason for reason in written) == (engine is Engine.BIGQUERY)


def test_spark_is_given_the_files_of_a_table_that_sql_made(world: FeedAgainstOracle) -> None:
    rows = [row(1, 1), row(1, 2), row(1, 3, day=YESTERDAY)]
    world.publish(world.land(1, rows), engine=Engine.BIGQUERY)
    spec = world.resolve(world.land(2, [row(2, 1)]), engine=Engine.SPARK)
    request = request_of(world, spec)
    assert request.parent
    folder = export_folder(world.services, spec.attempt)
    assert request.parent.data_uri == f"gs://state/{folder}"
    found = []
    for file in parent_files(world, request).files:
        with world.services.store.open(f"{folder}{file.path}") as stream:
            content = pq.read_table(stream)
        assert (content.num_rows, file.min_update_id, file.max_update_id) == (file.rows, 1, 1)
        found += content.to_pylist()
    assert sorted(found, key=str) == sorted(rows, key=str)


@pytest.mark.exhaustive
def test_files_that_are_gone_are_exported_anew(world: FeedAgainstOracle) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]))
    folder = world.manifest().data_folder
    assert folder
    world.services.store.delete_prefix(folder.removeprefix("gs://state/"))
    world.publish(world.land(2, [row(2, 1, 21)]))
    assert [(r[1], r[4], r[5]) for r in world.table_rows()] == [([1, 1], [1, 21], [1, 2]), ([1, 2], [1, 20], [1, 1])]


def test_exported_files_are_pruned_with_the_attempt_that_needed_them(world: FeedAgainstOracle) -> None:
    world.publish(world.land(1, [row(1, 1)]), engine=Engine.MERGE)
    spec = world.resolve(world.land(2, [row(2, 1)]), engine=Engine.SPARK)
    folder = export_folder(world.services, spec.attempt)
    assert prune(world.services) == []  # the attempt is at work
    world.deduplicate(spec)
    world.load(spec)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    assert prune(world.services) == [folder]
    data_folder = f"gs://state/{world.services.layout.data_folder(spec.attempt)}"
    assert str(world.manifest().data_folder).startswith(data_folder)


def test_export_is_refused_when_target_is_not_what_the_manifest_says(world: FeedAgainstOracle) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=Engine.BIGQUERY)
    world.bigquery.query_and_wait(f"DELETE FROM warehouse.{world.feed.target} WHERE product_id = 1")
    with pytest.raises(ContractViolation, match=rf"{TODAY}: 1 rows, expected 2.*Somebody changed target"):
        world.resolve(world.land(2, [row(2, 1)]), engine=Engine.SPARK)


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, pytest.param(Engine.MERGE, marks=pytest.mark.exhaustive)])
def test_engines_in_sql_notice_a_target_that_lost_rows(world: FeedAgainstOracle, engine: Engine) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=engine)
    spec = world.resolve(world.land(2, [row(2, 1)]), engine=engine)
    world.bigquery.query_and_wait(f"DELETE FROM warehouse.{world.feed.target} WHERE product_id = 1")
    with pytest.raises(ContractViolation, match=rf"\[{TODAY}\] has \[1\] keys in target, expected \[2\]"):
        world.deduplicate(spec)
