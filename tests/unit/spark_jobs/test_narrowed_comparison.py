"""Dates of which so many buckets differ that only their sub-buckets that differ are compared."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dedup_spark.comparison import bucket_selection
from dedup_spark.fingerprints.sub_buckets import SubBucketSums
from dedup_spark.plans.adopt import adopt_date, differences
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS


def rows(snapshot_id: int, products: range) -> list[dict[str, Any]]:
    values = {"date": date(2026, 3, 1), "store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": snapshot_id}
    return [{"product_id": product, **values} for product in products]


@pytest.mark.parametrize(("deliveries", "copies"), [(1, 0), (2, 1)])
def test_sums_are_copied_only_for_a_further_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deliveries: int, copies: int
) -> None:
    """Each copy takes up to 128 MB."""
    monkeypatch.setattr(adopt_date, "DEFAULT_LIMITS", differences.Limits(rows=25, hashes=1000))
    monkeypatch.setattr(differences, "_EXTRA_PASS_SHARE", 0.0)
    monkeypatch.setattr(bucket_selection, "_EXAMPLE_BUCKETS", 0)
    made, copy = [], SubBucketSums.copy

    def counted(sums: SubBucketSums) -> SubBucketSums:
        made.append(copy(sums))
        return made[-1]

    monkeypatch.setattr(SubBucketSums, "copy", counted)
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)
    area.publish(area.land(1, rows(1, range(400))))
    area.publish(*(area.land(number, rows(number, range(20, 420))) for number in range(2, 2 + deliveries)))
    (entry,) = area.manifest.dates if area.manifest else ()
    assert (entry.plan, entry.new_keys, entry.survivors, len(area.rows())) == ("adopt", 20, 20, 420)
    assert len(made) == copies
