"""Every peer of the benchmarks gives the same table on the same files. No time is measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.dataset import generate, table_contract
from benchmarks.dataset_shape import DatasetShape, Variant
from benchmarks.input_files import InputFiles
from benchmarks.interleaved_rounds import InterleavedRounds, PeerSchedule, PreparedDataset, file_digest_reader
from benchmarks.json_records import read_record
from benchmarks.paths import PEERS_PYTHON
from benchmarks.peers.registry import ENTRIES
from benchmarks.published_parent import open_feed, publish_parent, request_publish
from dedup_clone.contract.request import Plan as JobPlan

pytestmark = pytest.mark.spark

ROWS, DATES = 4_000, 2
PLANS = {plan.value for plan in JobPlan}
WITH_SPARK = [
    name for name, entry in ENTRIES.items() if entry.session_kind and dict(entry.options).get("plan", "auto") in PLANS
]
WITHOUT_SPARK = [name for name, entry in ENTRIES.items() if not entry.session_kind]
QUICK = {"adopt", "spark-row-number"}
# What does not presume a newer snapshot without duplicates.
DATAFRAME_PLANS = ["adopt", "window", "spark-row-number"]

Make = Callable[[DatasetShape], PreparedDataset]


@pytest.fixture(scope="module")
def prepared_dataset(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Make:
    @lru_cache
    def made(shape: DatasetShape) -> PreparedDataset:
        folder = root / shape.name
        dataset = generate(shape, folder, lambda text: None)
        publish_parent(shape, table_contract(shape), folder, dataset.rows)
        return PreparedDataset(folder / "input_files.json", dataset)

    root = tmp_path_factory.mktemp("benchmarks")
    return made


@pytest.fixture(autouse=True)
def _few_partitions(spark: SparkSession) -> Iterator[None]:
    """Plain Spark jobs have no need of two hundred partitions here."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "2")
    yield
    spark.conf.set(name, str(before))


def is_right(name: str, measured: PreparedDataset, spark: SparkSession, out: Path) -> bool:
    """Whether the peer's table is the expected one; true for a peer that makes no table."""
    inputs = read_record(InputFiles, measured.inputs_path)
    peer = ENTRIES[name].make(lambda: spark)
    peer.prepare(inputs, out)
    result = peer.result(inputs, out, peer.run(inputs, out))
    return result.files is None or file_digest_reader().digest(list(result.files)) == measured.dataset.expected


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.exhaustive) for name in WITH_SPARK]
)
def test_peers_with_spark_are_right(name: str, prepared_dataset: Make, spark: SparkSession, tmp_path: Path) -> None:
    assert is_right(name, prepared_dataset(DatasetShape(ROWS, DATES)), spark, tmp_path)


@pytest.mark.parametrize(
    "name", ["adopt", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in DATAFRAME_PLANS[1:])]
)
@pytest.mark.parametrize("variant", [Variant.DUPLICATES, pytest.param(Variant.LATE, marks=pytest.mark.exhaustive)])
def test_plans_are_right_with_duplicate_keys_and_late_snapshots(
    variant: Variant, name: str, prepared_dataset: Make, spark: SparkSession, tmp_path: Path
) -> None:
    assert is_right(name, prepared_dataset(DatasetShape(ROWS, DATES, variant, differing=0.05)), spark, tmp_path)


def test_text_keys_are_right(prepared_dataset: Make, spark: SparkSession, tmp_path: Path) -> None:
    assert is_right("adopt", prepared_dataset(DatasetShape(ROWS, DATES, string_keys=True)), spark, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.skipif(not PEERS_PYTHON.exists(), reason="make bench-setup installs Polars and delta-rs")
def test_peers_without_spark_are_right(prepared_dataset: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.interleaved_rounds.RUNS", tmp_path)
    measured = prepared_dataset(DatasetShape(ROWS, DATES))
    lines: list[str] = []
    rounds = InterleavedRounds(None, lines.append)
    runs = rounds.run([PeerSchedule(name, (measured,), 1, 1, warm_up=False) for name in WITHOUT_SPARK])
    assert [run.peer for run in runs] == WITHOUT_SPARK
    assert len(lines) == len(runs)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not PEERS_PYTHON.exists(), reason="make bench-setup installs Polars and delta-rs")
def test_a_peer_with_a_wrong_table_has_no_figures(
    prepared_dataset: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.interleaved_rounds.RUNS", tmp_path)
    late = prepared_dataset(DatasetShape(ROWS, DATES, Variant.LATE, differing=0.05))
    rounds = InterleavedRounds(None, lambda text: None)
    names = ("duckdb-antijoin", "duckdb-qualify")
    runs = rounds.run([PeerSchedule(name, (late,), 2, 1, warm_up=False) for name in names])
    assert [run.peer for run in runs] == ["duckdb-qualify"] * 2
    assert rounds.failures.keys() == {"duckdb-antijoin"}
    assert "do not use it" in rounds.failures["duckdb-antijoin"]


def test_missing_fingerprints_are_computed(prepared_dataset: Make, spark: SparkSession, tmp_path: Path) -> None:
    inputs = read_record(InputFiles, prepared_dataset(DatasetShape(ROWS, DATES, differing=0.05)).inputs_path)
    reasons = {}
    for stored_fingerprints in (True, False):
        feed = open_feed(inputs, spark, tmp_path / str(stored_fingerprints), stored_fingerprints=stored_fingerprints)
        candidate = feed.run(request_publish(feed, inputs))
        assert candidate.manifest
        reasons[stored_fingerprints] = {entry.plan_reason.rsplit(maxsplit=1)[-1] for entry in candidate.manifest.dates}
    assert reasons == {True: {"stored"}, False: {"computed"}}
