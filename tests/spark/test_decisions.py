"""Single decisions of the dedup, each in the smallest history that shows it, as one table.

Table, counts and changes are compared with the oracle after each publish. The table says which plan the last publish
takes for the first date, and what it gives as the reason. None needs Spark: what needs it fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.table import Absent, UpdateIdMode
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.against_oracle import JobAgainstOracle, Row
from tests.spark.product_rows import FIRST, SECOND, row

Values = Mapping[int, Any]


def snap(snapshot_id: int, first: Values, second: Values | None = None) -> list[Row]:
    """A snapshot: the value of each product, or the values of a product that it has several times, by date."""
    found = []
    for day, values in ((FIRST, first), (SECOND, second or {})):
        for product, value in values.items():
            for one in value if isinstance(value, list) else [value]:
                found.append(row(snapshot_id, product, one, day))
    return found


def many(snapshot_id: int, products: Sequence[int], changed: Values | None = None) -> list[Row]:
    """Products with their own number as value, but for those that changed."""
    return snap(snapshot_id, {product: product for product in products} | dict(changed or {}))


@dataclass(frozen=True)
class Decision:
    """`publishes`: the snapshots of each publish. `plan`: that of the last one, or of all if it is not AUTO.

    `settings`: of the feed. `reason`: a text in the reason that the manifest gives for the first date.
    """

    name: str
    publishes: Sequence[Sequence[list[Row]]]
    outcome: str
    reason: str = ""
    plan: Plan = Plan.AUTO
    settings: Mapping[str, Any] | None = None


CHANGED = {"mode": UpdateIdMode.LAST_CHANGED}
STORED = "sketch of the parent stored"
SAME = "same keys and values as in the last snapshot"
HALF = range(250, 750)

ADOPTED = [
    Decision("the_first_snapshot", [[snap(1, {1: 1, 2: None})]], "adopt"),
    Decision("a_backlog_without_parent", [[many(1, [1, 2]), many(2, [2, 3]), many(3, [3, 4])]], "adopt"),
    Decision("keys_that_come_and_go", [[many(1, range(300))], [many(2, range(3, 303))]], "adopt", STORED),
    Decision("the_same_rows_again", [[many(1, range(500))], [many(2, range(500))]], "adopt", SAME),
    Decision("one_changed_value", [[many(1, range(300))], [many(2, range(300), {7: None})]], "adopt", STORED),
    Decision(
        "a_number_outside_the_ranges_of_the_parents",
        [[many(1, range(300))], [many(2, range(300), {7: 10**12})]],
        "adopt",
        "[2] differing rows decoded; sketch of the parent computed",
    ),
    Decision(
        "the_snapshot_after_it",
        [[many(1, range(300))], [many(2, range(300), {7: 10**12})], [many(3, range(300), {7: 10**12 + 1})]],
        "adopt",
        "[2] differing rows decoded; sketch of the parent stored",
    ),
    Decision("most_rows_differ", [[many(1, range(500))], [many(2, HALF, {n: -n for n in HALF})]], "adopt", STORED),
    Decision("a_date_that_grows_thirtyfold", [[many(1, range(31))], [many(2, range(1, 930), {2: 9})]], "adopt"),
    Decision("a_survivor_that_returns", [[many(1, [1, 2, 3])], [many(2, [3])], [many(3, [1, 3])]], "adopt", STORED),
    Decision(
        "a_backlog_whose_older_deliveries_have_survivors",
        [[many(5, [1, 2, 3, 5])], [many(6, [1, 2, 3])], [many(7, [3, 4, 5]), many(8, [3, 4]), many(9, [1])]],
        "adopt",
    ),
    Decision(
        "values_that_an_older_delivery_changes",
        [
            [many(1, range(300))],
            [many(2, [n for n in range(300) if n != 4])],
            [many(3, range(300), {2: 10**6}), many(4, [n for n in range(300) if n not in (2, 3)], {1: None, 4: 7})],
        ],
        "adopt",
    ),
    Decision(
        "a_correction_without_a_key",
        [[many(6, [1, 3])], [many(7, [1, 2])], [snap(7, {1: 5, 4: 40})]],
        "adopt",
    ),
    Decision(
        "the_snapshot_after_a_correction",
        [[many(6, [1, 3])], [many(7, [1, 2])], [snap(7, {1: 5, 4: 4})], [snap(8, {1: 5, 2: 2, 4: 4})]],
        "adopt",
        SAME,
    ),
    Decision("downward_correction", [[snap(5, {1: 90, 2: 90})], [snap(5, {1: 10})]], "adopt"),
    Decision("a_date_that_was_carried", [[snap(1, {1: 1}, {1: 1})], [snap(2, {}, {1: 1})], [many(3, [1, 2])]], "adopt"),
    Decision("arrival_in_another_order", [[snap(2, {1: 20}), snap(1, {1: 10})]], "adopt"),
    Decision(
        "all_keys_if_asked_for",
        [[many(1, range(500))], [many(2, range(1, 501))]],
        "adopt",
        "all rows compared, as asked for",
        settings={"exact": True},
    ),
]
DUPLICATES = [
    Decision("duplicates_in_the_first_snapshot", [[snap(1, {1: [10, None, 7, 7], 2: 1})]], "adopt", "[3] surplus rows"),
    Decision(
        "duplicates_of_older_deliveries_that_the_newest_has", [[snap(1, {1: [5, 5, 5]}), many(2, [1, 2])]], "adopt"
    ),
    Decision("duplicates_that_only_older_deliveries_have", [[snap(1, {1: [5, 7, None]}), many(2, [2])]], "adopt"),
    Decision(
        "a_duplicate_delivered_again_and_again",
        [[many(n, range(300), {7: [7, 10**6]})] for n in (1, 2, 3)],
        "adopt",
        "[1] surplus rows of repeated keys left out; [1] files written anew",
    ),
    Decision(
        "a_row_three_times_in_every_snapshot",
        [[many(n, range(300), {7: [7, 7, 7]})] for n in (1, 2, 3)],
        "adopt",
        "[2] surplus rows of repeated keys left out; [1] files written anew",
    ),
    Decision(
        "a_row_that_changes_and_changes_back",
        [[many(1, range(300))], [many(2, range(300), {7: None}), many(3, range(300))]],
        "adopt",
        "[4] differing rows decoded",
    ),
    Decision(
        "no_duplicate_after_one", [[many(1, range(300), {7: [7, 10**6]})], [many(2, range(300))]], "adopt", STORED
    ),
    *[
        Decision(
            f"greatest_of_duplicates_{mode}",
            [[snap(n, {1: [5, 6, None, 6], 2: 7})] for n in (1, 2, 3)],
            "rewrite",
            plan=Plan.REWRITE,
            settings={"mode": mode},
        )
        for mode in UpdateIdMode
    ],
]
REWRITTEN = [
    Decision("late", [[many(7, [1, 2])], [many(3, [1, 9])]], "rewrite", "not adopted: snapshot id [3] is below [7]"),
    Decision(
        "rows_of_a_late_one_are_decoded",
        [[many(7, range(90))], [many(3, range(9, 99))]],
        "rewrite",
        "[18] differing rows decoded",
    ),
    Decision(
        "survivors_are_decoded_too",
        [[many(1, range(90))], [many(2, range(9, 99))]],
        "rewrite",
        "[18] differing rows decoded",
        Plan.REWRITE,
    ),
    Decision(
        "late_with_all_rows_compared",
        [[many(7, [1, 2])], [many(3, [1, 9])]],
        "rewrite",
        "all rows compared",
        settings={"exact": True},
    ),
    Decision(
        "the_snapshot_after_a_late_one", [[many(7, [1, 2])], [many(3, [1, 9])], [many(8, [1, 3])]], "adopt", STORED
    ),
    Decision("asked_for", [[many(1, range(90))], [many(2, range(9, 99))]], "rewrite", "asked for", Plan.REWRITE),
    Decision("correction_written_anew", [[snap(7, {1: 9, 2: 9})], [snap(7, {1: 5})]], "rewrite", plan=Plan.REWRITE),
    Decision(
        "copied_forward_although_a_rewrite_is_asked_for",
        [[snap(1, {1: 1}, {1: 1})], [snap(2, {}, {1: 2})]],
        "copied forward",
        "no applied delivery",
        Plan.REWRITE,
    ),
    Decision(
        "copied_forward", [[snap(1, {1: 1}, {1: 1})], [snap(2, {}, {1: 2})]], "copied forward", "no applied delivery"
    ),
]
LAST_CHANGED = [
    Decision(
        "unchanged_rows_retain_their_id",
        [[snap(1, {1: 10, 2: 10})], [snap(2, {1: 10, 2: 20, 3: 30})]],
        "rewrite",
        settings=CHANGED,
    ),
    Decision(
        "a_survivor_returns_unchanged",
        [[snap(1, {1: 10, 2: 10})], [snap(2, {2: 10})], [snap(3, {1: 10, 2: 10})]],
        "rewrite",
        settings=CHANGED,
    ),
    Decision("nothing_changed", [[many(n, range(300))] for n in (1, 2, 3)], "rewrite", SAME, settings=CHANGED),
    Decision(
        "a_pause_changes_no_row",
        [[many(1, range(300))], [many(2, range(290))], [many(3, range(290))]],
        "rewrite",
        SAME,
        settings=CHANGED,
    ),
    Decision(
        "few_rows_are_compared",
        [[many(1, range(3000))], [many(2, range(2999), {7: 2})]],
        "rewrite",
        "[3] differing rows compared",
        settings=CHANGED,
    ),
    Decision("a_redelivery_of_the_newest", [[snap(7, {1: 10})], [snap(7, {1: 11})]], "rewrite", settings=CHANGED),
]
DECISIONS = [*ADOPTED, *DUPLICATES, *REWRITTEN, *LAST_CHANGED]


@pytest.mark.parametrize("case", DECISIONS, ids=lambda case: case.name)
def test_decision(tmp_path: Path, case: Decision) -> None:
    settings = {"with_changes": "exact" not in (case.settings or {}), **(case.settings or {})}
    feed = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=case.plan, **settings)
    job = JobAgainstOracle(feed)
    for snapshots in case.publishes:
        job.play(*snapshots)
    assert (feed.entry(FIRST).plan, case.reason in feed.entry(FIRST).plan_reason) == (case.outcome, True), feed.entry(
        FIRST
    ).plan_reason


def test_a_feed_may_change_its_mode_and_back(tmp_path: Path) -> None:
    """Fingerprints of one mode are of other rows than those of the other mode, and are not used there."""
    job = JobAgainstOracle(
        SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, UpdateIdMode.LAST_CHANGED)
    )
    job.play(many(1, range(300)))
    job.play(many(2, range(300), {5: 2}))
    for mode, rows, plan in (
        (UpdateIdMode.LAST_SEEN, many(3, range(299), {6: 3}), "adopt"),
        (UpdateIdMode.LAST_CHANGED, many(4, range(300), {6: 4}), "rewrite"),
    ):
        job.feed.mode = mode
        job.state.last_changed = mode is UpdateIdMode.LAST_CHANGED
        job.play(rows)
        assert job.entry.plan == plan


@pytest.mark.parametrize("plan", [Plan.AUTO, Plan.REWRITE])
@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_keys_that_the_newest_snapshot_lacks_are_deleted_also_those_that_were_kept_before(
    tmp_path: Path, mode: UpdateIdMode, plan: Plan
) -> None:
    """A sketch of the date's last snapshot does not show what was kept, but serves as soon as nothing is."""
    feed = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, mode, plan)
    feed.with_changes = True
    job = JobAgainstOracle(feed)
    job.play(many(1, range(300)))
    job.play(many(2, range(290)))
    job.set_absent(Absent.DELETE)
    for number, products, counts in (
        (3, range(290), (290, 0, 10)),
        (4, range(10, 290), (280, 0, 10)),
        (4, range(20, 295), (275, 5, 10)),
        (5, range(20, 295), (275, 0, 0)),
    ):
        job.play(many(number, products))
        entry = feed.entry(FIRST)
        assert (entry.rows, entry.new_keys, entry.deleted, entry.survivors) == (*counts, 0)
    assert "same keys and values as" in feed.entry(FIRST).plan_reason


def publish_only(job: JobAgainstOracle, rows: list[Row], *dates: date) -> None:
    job.publish(job.land(rows[0]["update_id"], rows), dates=dates)


def test_a_request_for_some_dates_takes_these_and_leaves_the_delivery_to_come(tmp_path: Path) -> None:
    job = JobAgainstOracle(SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS))
    job.play(snap(7, {1: 20, 2: 20}, {1: 20}))
    publish_only(job, snap(8, {1: 21}, {1: 22, 3: 23}), SECOND)
    assert job.feed.manifest
    assert [delivery.snapshot_id for delivery in job.feed.manifest.deliveries] == [7]
    assert [delivery.snapshot_id for delivery in job.feed.manifest.applied] == [8]
    assert job.feed.entry(FIRST).plan == "copied forward"
    publish_only(job, snap(6, {5: 25}, {1: 99, 4: 24}), SECOND)
    job.publish(8)
    assert [delivery.snapshot_id for delivery in job.feed.manifest.deliveries] == [7, 8]
    publish_only(job, job.landed[8][1], FIRST)  # which is in: nothing changes


@pytest.mark.parametrize("snapshot_id", [6, 7])
def test_an_older_snapshot_is_late_in_mode_last_changed(tmp_path: Path, snapshot_id: int) -> None:
    """Even if the newest one changed nothing, and also when it is replayed."""
    feed = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, UpdateIdMode.LAST_CHANGED)
    earlier = feed.land(7, snap(7, {1: 10}))
    feed.publish(earlier)
    feed.publish(feed.land(8, snap(8, {1: 10})))
    late = earlier if snapshot_id == 7 else feed.land(6, snap(6, {1: 60}))
    candidate = feed.run(replace(feed.attempt([late]), deliveries=(late.delivery,)))
    (refused,) = candidate.refused
    assert f"snapshot id [{snapshot_id}] is below [8]" in refused.reason
    assert candidate.manifest is None
