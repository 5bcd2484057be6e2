"""Objects of unusual names on cloud storage, read by the job through Spark's connector as the DAGs submit it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dedup_clone.contract.request import Plan
from dedup_spark.column_types import arrow_schema
from dedup_spark.storage import cloud
from tests.spark.feed_area import FeedArea
from tests.spark.gcs import fake_gcs
from tests.spark.tables import PRODUCTS
from tests.spark.test_accepted_input import NAMES, PRODUCT
from tests.spark.test_command import read_candidate, submit

pytestmark = pytest.mark.spark


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FeedArea]:
    with fake_gcs(tmp_path / "gcs", "landing", "state") as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        cloud.forget_clients()
        yield FeedArea(None, "landing", "gs://state/feed", PRODUCTS, plan=Plan.WINDOW)
        cloud.forget_clients()


def test_objects_of_any_name_that_a_load_job_can_name_are_read(area: FeedArea) -> None:
    names = [*NAMES, "colon:1"]
    for number, name in enumerate(names):
        rows = pa.Table.from_pylist([{**PRODUCT, "product_id": number}], arrow_schema(PRODUCTS.columns))
        area.put(1, f"date=2026-03-01/{name}.parquet", rows)
    request = area.request([area.arrive(1)])
    done = submit(request)
    assert done.returncode == 0, done.stdout + done.stderr
    candidate = read_candidate(request)
    assert candidate.refused == ()
    area.commit(candidate)
    assert sorted(r["product_id"] for r in area.rows()) == list(range(len(names)))
