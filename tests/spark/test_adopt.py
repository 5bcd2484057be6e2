"""Plan adopt, decision by decision: what is adopted, what is read, which rows survive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from dedup_clone.contract.manifest import Difference
from dedup_clone.contract.request import Plan
from dedup_spark import storage
from dedup_spark.comparison import ranged_rows
from dedup_spark.fingerprints import stored
from dedup_spark.plans.adopt import adopt_date
from dedup_spark.plans.adopt.differences import Limits
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.product_rows import FIRST, SECOND, files_of, found, path, row, rows

pytestmark = pytest.mark.spark


def fingerprints(area: SparkJobFeed, day: date) -> Path:
    return Path(storage.join(area.data_uri(), stored.path_of(day)))


def test_newest_files_become_the_dates_and_only_missing_rows_are_written(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, *range(1000))))
    arrival = area.land(2, rows(2, *range(3, 1003)))
    candidate = area.publish(arrival)
    entry, (adopted, survivors) = area.entry(FIRST), sorted(files_of(area, FIRST), key=lambda file: -file.rows)
    assert (entry.plan, entry.adopted_delivery, entry.rows) == ("adopt", arrival.delivery, 1003)
    assert (entry.new_keys, entry.survivors, entry.changed, entry.ties) == (3, 3, 997, 0)
    assert "as 64-bit words; fingerprints of the parent stored" in entry.plan_reason
    assert path(area, adopted).read_bytes() == Path(area.uri(arrival.objects[0].name)).read_bytes()
    assert (survivors.rows, survivors.max_update_id) == (3, 1)
    (metrics,) = candidate.metrics.dates
    assert metrics.date == FIRST
    assert metrics.bytes_read > 0
    assert metrics.bytes_written == survivors.size + fingerprints(area, FIRST).stat().st_size
    assert metrics.seconds is not None


def test_what_is_written_into_landing_later_does_not_reach_the_generation(area: SparkJobFeed) -> None:
    arrival = area.land(1, rows(1, 1))
    area.publish(arrival)
    with Path(area.uri(arrival.objects[0].name)).open("r+b") as landed:
        landed.write(b"other")
    assert found(area) == [(1, 10, 1)]


def test_same_rows_again_need_no_look_at_the_parents(area: SparkJobFeed) -> None:
    area.publish(area.land(1, [row(1, n, n) for n in range(500)]))
    for file in files_of(area, FIRST):
        path(area, file).unlink()
    area.publish(area.land(2, [row(2, n, n) for n in range(500)]))
    assert found(area) == [(n, n, 2) for n in range(500)]
    assert area.entry(FIRST).plan_reason == "same keys and values as before: the parent's rows were not compared"
    assert area.entry(FIRST).changed == 0


FEW_ROWS_AT_A_TIME = Limits(rows=40, hashes=100)


@pytest.mark.parametrize("repeated", [0, 1])
def test_date_that_has_grown_many_times_over_is_compared_with_its_few_rows_alone(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, repeated: int
) -> None:
    """Of 31 rows key 0 goes, key 1 comes back, key 2 changes; the others stay as they were. 900 come."""
    monkeypatch.setattr(adopt_date, "DEFAULT_LIMITS", FEW_ROWS_AT_A_TIME)
    area.publish(area.land(1, [row(1, n, n) for n in range(31)]))
    area.publish(area.land(2, [row(2, n, n) for n in range(31) if n != 1]))
    third = [row(3, n, 99 if n == 2 else n) for n in range(1, 930)]
    again = [row(3, n, value) for n, value in ((5, 4), (500, 499))][: 2 * repeated]
    area.publish(area.land(3, [*third, *again]))
    entry = area.entry(FIRST)
    assert (entry.plan, entry.survivors, entry.changed, entry.ties) == ("adopt", 1, 1, 2 * repeated)
    assert entry.new_keys == 899
    assert found(area) == [(0, 0, 2), *((n, 99 if n == 2 else n, 3) for n in range(1, 930))]


def test_date_in_which_most_rows_differ_is_adopted_a_few_rows_at_a_time(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopt_date, "DEFAULT_LIMITS", FEW_ROWS_AT_A_TIME)
    monkeypatch.setattr(ranged_rows, "_ROWS_IN_MEMORY", 100)
    area.publish(area.land(1, [row(1, n, n) for n in range(500)]))
    area.publish(area.land(2, [row(2, n, -n) for n in range(250, 750)]))
    entry = area.entry(FIRST)
    assert (entry.plan, entry.rows, entry.new_keys, entry.survivors, entry.changed) == ("adopt", 750, 250, 250, 250)
    assert found(area) == [(n, n if n < 250 else -n, 1 if n < 250 else 2) for n in range(750)]
    area.publish(area.land(3, [row(3, n, -n) for n in range(1, 750)]))
    assert area.entry(FIRST).survivors == 1


def test_values_are_left_alone_where_nobody_counts_changes(area: SparkJobFeed) -> None:
    area.compare_values = False
    area.publish(area.land(1, rows(1, *range(500))))
    for file in files_of(area, FIRST):
        path(area, file).unlink()
    area.publish(area.land(2, rows(2, *range(500))))
    assert area.entry(FIRST).plan_reason == "same keys as before: the parent's rows were not compared"
    assert (area.entry(FIRST).changed, area.entry(FIRST).content_fingerprint) == (None, None)


def test_changed_values_are_counted_whoever_brings_them(area: SparkJobFeed) -> None:
    """Key 1 changes by the newest delivery, 2 by an older one, 4 comes back changed; 3 stays as it was."""
    area.publish(area.land(1, [row(1, n, n) for n in range(300)]))
    area.publish(area.land(2, [row(2, n, n) for n in range(300) if n != 4]))
    older = area.land(3, [row(3, n, 10**6 if n == 2 else n) for n in range(300) if n != 4])
    newest = [row(4, n, None if n == 1 else 7 if n == 4 else n) for n in range(300) if n not in (2, 3)]
    candidate = area.publish(older, area.land(4, newest))
    assert (area.entry(FIRST).changed, area.entry(FIRST).survivors) == (3, 2)
    changed = {example.key for example in candidate.examples if example.difference is Difference.CHANGED}
    assert changed <= {f"product_id={n}, store_id=2072, attribute_id=1" for n in (1, 2, 4)}
    assert changed


def _delete(target: Path) -> None:
    target.unlink()


def _damage(target: Path) -> None:
    content = target.read_bytes()
    target.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _of_another_date(target: Path) -> None:
    target.write_bytes(target.with_name(f"{SECOND}.bin").read_bytes())


def test_correction_is_adopted_and_its_survivors_are_of_the_same_snapshot(area: SparkJobFeed) -> None:
    """Key 3 was a survivor before. The correction lacks key 2, which the next snapshot has again, and changes key 1."""
    area.publish(area.land(6, rows(6, 1, 3)))
    area.publish(area.land(7, rows(7, 1, 2)))
    area.publish(area.land(7, [row(7, 1, 5), row(7, 4, 40)]))
    entry = area.entry(FIRST)
    assert (entry.plan, entry.rows, entry.new_keys, entry.changed, entry.survivors) == ("adopt", 4, 1, 1, 2)
    assert found(area) == [(1, 5, 7), (2, 70, 7), (3, 60, 6), (4, 40, 7)]
    area.publish(area.land(8, [row(8, 1, 5), row(8, 2, 70), row(8, 4, 40)]))
    assert area.entry(FIRST).plan_reason == "same keys and values as before: the parent's rows were not compared"
    assert found(area) == [(1, 5, 8), (2, 70, 8), (3, 60, 6), (4, 40, 8)]


@pytest.mark.parametrize("spoil", [_delete, _damage, _of_another_date])
def test_fingerprints_that_are_gone_or_wrong_are_computed_again(
    area: SparkJobFeed, spoil: Callable[[Path], None]
) -> None:
    area.publish(area.land(1, rows(1, 1, 2) + rows(1, 7, day=SECOND)))
    spoil(fingerprints(area, FIRST))
    area.publish(area.land(2, rows(2, 2, 3) + rows(2, 7, 8, day=SECOND)))
    assert found(area) == [(1, 10, 1), (2, 20, 2), (3, 20, 2), (7, 20, 2), (8, 20, 2)]
    assert "fingerprints of the parent computed" in area.entry(FIRST).plan_reason
    assert "fingerprints of the parent stored" in area.entry(SECOND).plan_reason
    area.publish(area.land(3, rows(3, 1, 2, 3, 4)))
    assert "fingerprints of the parent stored" in area.entry(FIRST).plan_reason


def test_carried_date_keeps_its_fingerprints_and_its_adopted_delivery(area: SparkJobFeed) -> None:
    first = area.land(1, rows(1, 1, 2) + rows(1, 1, day=SECOND))
    area.publish(first)
    area.publish(area.land(2, rows(2, 1, 2)))
    assert (area.entry(SECOND).plan, area.entry(SECOND).adopted_delivery) == ("carried", first.delivery)
    area.publish(area.land(3, rows(3, 1, 2) + rows(3, 2, day=SECOND)))
    assert "fingerprints of the parent stored" in area.entry(SECOND).plan_reason
    assert found(area) == [(1, 10, 1), (1, 30, 3), (2, 30, 3), (2, 30, 3)]


def test_survivor_that_comes_back_leaves_the_survivors_files(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1, 2, 3)))
    area.publish(area.land(2, rows(2, 3)))
    area.publish(area.land(3, rows(3, 1, 3)))
    assert found(area) == [(1, 30, 3), (2, 10, 1), (3, 30, 3)]
    entry = area.entry(FIRST)
    assert (entry.new_keys, entry.survivors) == (0, 1)


def test_survivors_files_are_few_and_those_that_lose_no_row_are_copied(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, *range(100))))
    area.publish(area.land(2, rows(2, *range(40, 100))))
    (large,) = [file for file in files_of(area, FIRST) if file.max_update_id == 1]
    for snapshot_id in range(3, 23):
        area.publish(area.land(snapshot_id, rows(snapshot_id, *range(38 + snapshot_id, 100))))
        survivors = [file for file in files_of(area, FIRST) if file.max_update_id < snapshot_id]
        assert len(survivors) <= 5
        if snapshot_id < 20:
            assert large in survivors
    assert area.entry(FIRST).survivors == 60
    assert {update_id for product, _, update_id in found(area) if product < 40} == {1}


def test_backlog_takes_survivors_from_older_deliveries_in_precedence(area: SparkJobFeed) -> None:
    """Product 2 stays from the parent, 3 and 4 from the later of two older deliveries, 5 comes back by an older one."""
    area.publish(area.land(5, rows(5, 1, 2, 3, 5)))
    area.publish(area.land(6, rows(6, 1, 2, 3)))
    backlog = [
        area.land(n, rows(n, *products)) for n, products in ((4, (1, 2, 9)), (7, (3, 4, 5)), (8, (3, 4)), (9, (1,)))
    ]
    area.publish(*backlog)
    assert found(area) == [(1, 90, 9), (2, 60, 6), (3, 80, 8), (4, 80, 8), (5, 70, 7), (9, 40, 4)]
    entry = area.entry(FIRST)
    assert (entry.plan, entry.new_keys, entry.survivors) == ("adopt", 2, 5)


def test_first_publish_of_a_backlog_needs_no_parent(area: SparkJobFeed) -> None:
    area.publish(*[area.land(n, rows(n, n, n + 1)) for n in (1, 2, 3)])
    assert found(area) == [(1, 10, 1), (2, 20, 2), (3, 30, 3), (4, 30, 3)]
    entry = area.entry(FIRST)
    assert (entry.plan, entry.new_keys, entry.survivors, entry.changed) == ("adopt", 4, 2, 0)


def test_exact_compares_all_keys(area: SparkJobFeed) -> None:
    area.exact = True
    area.publish(area.land(1, rows(1, *range(500))))
    area.publish(area.land(2, rows(2, *range(1, 501))))
    assert area.entry(FIRST).plan_reason.startswith("all keys compared, as asked for")
    assert (area.entry(FIRST).new_keys, area.entry(FIRST).survivors) == (1, 1)


def test_dates_are_adopted_in_spark_tasks(with_spark: SparkJobFeed) -> None:
    area = with_spark
    days = [date(2026, 3, n) for n in range(1, 6)]
    area.publish(area.land(1, [r for day in days for r in rows(1, *range(50), day=day)]))
    area.publish(area.land(2, [r for day in days[1:] for r in rows(2, *range(2, 51), day=day)]))
    assert [area.entry(day).plan for day in days] == ["carried", "adopt", "adopt", "adopt", "adopt"]
    assert [(area.entry(day).new_keys, area.entry(day).survivors) for day in days[1:]] == [(1, 2)] * 4
    assert len(area.rows()) == 50 + 4 * 51


@pytest.mark.parametrize("plan", [Plan.ADOPT, pytest.param(Plan.ANTIJOIN, marks=pytest.mark.exhaustive), Plan.WINDOW])
def test_candidate_has_examples_of_keys_of_each_difference(with_spark: SparkJobFeed, plan: Plan) -> None:
    area = with_spark
    area.plan = plan
    area.publish(area.land(1, rows(1, *range(20)) + rows(1, 1, day=SECOND)))
    candidate = area.publish(area.land(2, rows(2, *range(5, 25)) + rows(2, 2, day=SECOND)))
    by_kind: dict[tuple[date, Difference], list[int]] = {}
    for example in candidate.examples:
        product, store, attribute = example.key.split(", ")
        assert (store, attribute) == ("store_id=2072", "attribute_id=1")
        by_kind.setdefault((example.date, example.difference), []).append(int(product.removeprefix("product_id=")))
    new, survivors = by_kind[FIRST, Difference.NEW], by_kind[FIRST, Difference.SURVIVOR]
    assert len(set(new)) == len(set(survivors)) == 3
    assert set(new) <= set(range(20, 25))
    assert set(survivors) <= set(range(5))
    assert by_kind[SECOND, Difference.NEW] == [2]
    assert by_kind[SECOND, Difference.SURVIVOR] == [1]
    changed = by_kind.get((FIRST, Difference.CHANGED), [])
    assert len(set(changed)) == 3
    assert set(changed) <= set(range(5, 20))
