"""Which landed objects are data files, which are leftovers, and which refuse their delivery."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dedup_clone.contract import landed_objects
from dedup_clone.contract.delivery import Arrival, LandedObject
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.table import TableContract
from dedup_spark.landing.deliveries import changed_objects, data_files
from testkit.spark_job_feed import FEED, SparkJobFeed
from testkit.table_contracts import PRODUCTS

FOLDER = f"{FEED}/snapshot_id=1/"


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    (tmp_path / "landing" / FOLDER).mkdir(parents=True)
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)


def arrival(area: SparkJobFeed, *objects: tuple[str, int]) -> Arrival:
    landed = tuple(LandedObject(f"{FOLDER}{name}", 1, "", size) for name, size in objects)
    return replace(area.arrive(1), objects=landed)


def names(area: SparkJobFeed, *objects: tuple[str, int], engine: Engine = Engine.SPARK) -> tuple[list[str], list[str]]:
    """Names of the data files below the snapshot, and the problems."""
    noticed = arrival(area, *objects)
    files, problems = data_files(noticed, replace(area.attempt([noticed]), engine=engine))
    return [f.uri.removeprefix(area.uri(FOLDER)) for f in files], problems


def test_placeholders_of_folders_are_ignored(area: SparkJobFeed) -> None:
    found = names(area, ("", 0), ("date=2026-03-01/", 0), ("date=2026-03-01/a.parquet", 9), ("date=2026-03-02/", 0))
    assert found == (["date=2026-03-01/a.parquet"], [])


def test_object_with_bytes_that_is_named_as_a_folder_is_no_data_file(area: SparkJobFeed) -> None:
    _, (problem,) = names(area, ("date=2026-03-01/", 5))
    assert "is no data file" in problem


def test_folder_without_a_name_is_refused(area: SparkJobFeed) -> None:
    area.date_folders = False
    _, (problem,) = names(area, ("a//b.parquet", 5))
    assert "a//b.parquet] is in a folder without a name, expected one slash between two names" in problem


def test_date_folders_of_a_column_that_begins_as_hidden_ones_do_are_no_leftovers(area: SparkJobFeed) -> None:
    columns = tuple(replace(c, name="_day") if c.name == "date" else c for c in PRODUCTS.columns)
    keys = tuple(key.replace("date", "_day") for key in PRODUCTS.keys)
    area.table = TableContract(columns, "_day", "update_id", keys, (), 730)
    found = names(area, ("_day=2026-03-01/a.parquet", 9), ("_other/a.parquet", 9))
    assert found == (["_day=2026-03-01/a.parquet"], [])


@pytest.mark.parametrize(("engine", "limit"), [(Engine.SPARK, "MAX_TABLE_FILES"), (Engine.BIGQUERY, "URIS_PER_JOB")])
def test_more_files_than_the_engine_takes_are_refused(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, engine: Engine, limit: str
) -> None:
    monkeypatch.setattr(landed_objects, limit, 3)
    files = [(f"date=2026-03-01/{n}.parquet", 9) for n in range(4)]
    assert names(area, *files[:3], engine=engine)[1] == []
    _, (problem,) = names(area, *files, engine=engine)
    assert "holds [4] data files, expected at most [3] for engine" in problem


def test_marker_of_any_name_is_no_object_that_appeared(area: SparkJobFeed) -> None:
    path = Path(area.uri(FOLDER))
    (path / "DONE").write_text("")
    (path / "_COMPLETE").write_text("")
    noticed = replace(arrival(area), marker=f"{FOLDER}DONE")
    assert changed_objects(noticed) == []
    (path / "date=2026-03-01").mkdir()
    (path / "date=2026-03-01" / "late.parquet").write_text("x")
    (problem,) = changed_objects(noticed)
    assert "late.parquet] appeared after the inventory was taken" in problem
