"""What the driver does for a publish of many dates: no date is a reason to look through the files of all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.contract.request import Plan
from dedup_spark import storage
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.unit.spark_jobs.dated_rows import rows


def names_of_objects_made(area: SparkJobFeed, dates: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """By the second publish of as many dates, a file each."""
    area.publish(area.land(1, rows(1, dates)))
    arrival = area.land(2, rows(2, dates))
    made, name = 0, storage.object_uri

    def counted(bucket: str, name_of_object: str) -> str:
        nonlocal made
        made += 1
        return name(bucket, name_of_object)

    with monkeypatch.context() as patched:
        patched.setattr(storage, "object_uri", counted)
        area.publish(arrival)
    return made


@pytest.mark.parametrize("plan", [Plan.AUTO, Plan.REWRITE])
def test_objects_are_named_as_often_for_each_date_however_many_there_are(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(dates: int) -> int:
        folder = tmp_path / str(dates)
        area = SparkJobFeed(None, str(folder / "landing"), str(folder / "state"), PRODUCTS, plan=plan)
        return names_of_objects_made(area, dates, monkeypatch)

    few, twice, thrice = made(3), made(6), made(9)
    assert thrice - twice == twice - few > 0
