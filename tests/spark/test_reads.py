"""What a publish reads: landed files once, the parent's rows only if they may differ, and nothing for what is live."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.landing.file_validation import FileValidator
from dedup_spark.plans.difference import comparison_inputs, differences
from dedup_spark.sketch import stored
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, SCHEMA, SECOND, found, path, row, rows

MODES = list(UpdateIdMode)


def unchanged(snapshot_id: int, count: int) -> list[dict[str, Any]]:
    return [row(snapshot_id, product, product) for product in range(count)]


def destroy_data_files(area: SparkJobFeed) -> None:
    for file in area.files().files:
        path(area, file).write_bytes(b"nobody reads this")


def test_changes_of_the_newest_snapshots_need_no_look_at_the_parents(area: SparkJobFeed) -> None:
    area.with_changes = True
    area.publish(area.land(1, unchanged(1, 500)))
    destroy_data_files(area)
    delivered = [row(2, product, product + (product == 7)) for product in range(1, 501)]
    changes = area.changes(area.publish(area.land(2, delivered)))
    assert changes is not None
    assert sorted((change["new_row"]["product_id"], change["change_type"]) for change in changes) == [
        (0, "missing"),
        (7, "changed"),
        (500, "new"),
    ]


def test_a_snapshot_without_change_reads_and_writes_nothing_in_mode_last_changed(area: SparkJobFeed) -> None:
    area.mode = UpdateIdMode.LAST_CHANGED
    area.publish(area.land(1, unchanged(1, 500)))
    before = area.entry(FIRST)
    destroy_data_files(area)
    for snapshot_id in (2, 3):
        area.publish(area.land(snapshot_id, unchanged(snapshot_id, 500)))
        entry = area.entry(FIRST)
        assert (entry.files_digest, entry.rows, entry.max_update_id) == (before.files_digest, 500, 1)
        assert (entry.new_keys, entry.changed, entry.survivors) == (0, 0, 0)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each object was opened for reading."""
    counts, open_input = Counter[str](), storage.open_input

    def counted(uri: str) -> Any:
        counts[uri] += 1
        return open_input(uri)

    monkeypatch.setattr(storage, "open_input", counted)
    return counts


def test_landed_files_of_an_unchanged_date_are_opened_once(area: SparkJobFeed, opened: Counter[str]) -> None:
    area.mode = UpdateIdMode.LAST_CHANGED
    area.publish(area.land(1, unchanged(1, 300)))
    arrival = area.land(2, unchanged(2, 300))
    opened.clear()
    area.publish(arrival)
    assert [opened[area.uri(landed.name)] for landed in arrival.objects] == [1]


@pytest.mark.parametrize("copies", [0, 1])
def test_a_first_load_is_read_as_often_however_large_it_is(
    area: SparkJobFeed, opened: Counter[str], monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    """Its repeated keys are looked for in many ranges of keys, each of which has repeated keys, or none has."""
    monkeypatch.setattr(comparison_inputs, "_KEY_CACHE_BYTES", 0)
    arrival = area.land(1, unchanged(1, 500) * (1 + copies))
    uri, reads = area.uri(arrival.objects[0].name), []
    for codes_at_a_time in (1_000_000, 20):
        monkeypatch.setattr(differences, "CODES_AT_A_TIME", codes_at_a_time)
        area.manifest = area.parent = None
        opened.clear()
        area.publish(arrival)
        assert (area.entry(FIRST).rows, area.entry(FIRST).ties) == (500, 500 * copies)
        reads.append(opened[uri])
    assert reads[0] == reads[1]


def test_the_parents_base_is_not_read_and_its_survivors_only_if_keys_come(area: SparkJobFeed) -> None:
    """Survivors and changed rows are decoded from the sketches."""
    area.publish(area.land(1, unchanged(1, 300)))
    destroy_data_files(area)
    area.publish(area.land(2, unchanged(2, 300)[5:]))
    (survivors,) = (file for file in area.files().files if file.max_update_id == 1)
    content = path(area, survivors).read_bytes()
    destroy_data_files(area)
    path(area, survivors).write_bytes(content)
    area.publish(area.land(3, unchanged(3, 301)[2:]))
    entry = area.entry(FIRST)
    assert (entry.new_keys, entry.changed, entry.survivors) == (1, 0, 2)
    assert "differing rows decoded; sketch of the parent stored" in entry.plan_reason


def test_rows_with_text_are_read_only_if_the_newest_delivery_lacks_them(tmp_path: Path) -> None:
    columns = tuple(replace(c, type="STRING") if c.name == "attr_value" else c for c in PRODUCTS.columns)
    table = replace(PRODUCTS, columns=columns)
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), table)

    def texts(snapshot_id: int, count: int) -> list[dict[str, Any]]:
        return [
            {**row(snapshot_id, n, 0), "attr_value": "new" if snapshot_id == n == 2 else f"{n}"} for n in range(count)
        ]

    area.publish(area.land(1, texts(1, 500)))
    destroy_data_files(area)
    candidate = area.publish(area.land(2, texts(2, 501)))
    entry = area.entry(FIRST)
    assert (entry.rows, entry.new_keys, entry.changed, entry.survivors) == (501, 1, 1, 0)
    assert sorted((example.difference.value, example.key[:14]) for example in candidate.examples) == [
        ("changed", "product_id=2, "),
        ("new", "product_id=500"),
    ]
    area.publish(area.land(3, texts(3, 499)))
    entry = area.entry(FIRST)
    assert (entry.rows, entry.new_keys, entry.changed, entry.survivors) == (501, 0, 1, 2)


def test_a_delivery_with_duplicates_needs_no_look_at_the_parents(area: SparkJobFeed) -> None:
    """Not even for rows that are there three times, which cannot be decoded."""
    for snapshot_id in (1, 2, 3):
        copies = [row(snapshot_id, 7, 7)] * 2 + [row(snapshot_id, 8, value) for value in (None, 9, 9, 9)]
        area.publish(area.land(snapshot_id, [*unchanged(snapshot_id, 400), *copies]))
        entry = area.entry(FIRST)
        assert (entry.ties, entry.changed, entry.new_keys) == (6, 0, 400 if snapshot_id == 1 else 0)
        destroy_data_files(area)


@pytest.fixture
def second_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """URIs of files that are read apart from the first pass: validated alone, or for their keys."""
    reads: list[str] = []
    validate, batches = FileValidator.__call__, KeyReader.batches

    def validated(self: FileValidator, landed: Any) -> Any:
        reads.append(landed.uri)
        return validate(self, landed)

    def read(self: KeyReader, uri: str, **wanted: bool) -> Iterator[Any]:
        reads.append(uri)
        return batches(self, uri, **wanted)

    monkeypatch.setattr(FileValidator, "__call__", validated)
    monkeypatch.setattr(KeyReader, "batches", read)
    return reads


def landed_uris(area: SparkJobFeed, arrival: Arrival) -> set[str]:
    return {area.uri(landed.name) for landed in arrival.objects}


def test_landed_files_are_decoded_once(area: SparkJobFeed, second_reads: list[str]) -> None:
    """In order, late on one of two dates, and late on both, without a row to insert there."""
    snapshots = [
        (1, unchanged(1, 300) + rows(1, 1, day=SECOND), ["adopt", "adopt"]),
        (9, unchanged(9, 310)[5:], ["adopt", "copied forward"]),
        (5, unchanged(5, 309)[7:] + rows(5, 2, day=SECOND), ["rewrite", "adopt"]),
        (3, [*unchanged(3, 310)[8:], row(3, 2, 50, SECOND)], ["rewrite", "rewrite"]),
    ]
    for snapshot_id, snapshot, plans in snapshots:
        arrival = area.land(snapshot_id, snapshot)
        area.publish(arrival)
        assert not landed_uris(area, arrival) & set(second_reads)
        assert [area.entry(day).plan for day in (FIRST, SECOND)] == plans
    assert len(found(area)) == 312


def test_only_the_dates_of_a_refused_delivery_run_again(area: SparkJobFeed, second_reads: list[str]) -> None:
    """A file without rows is no reason to run its date again."""
    area.land(2, rows(2, 1, 2) + rows(2, 3, day=SECOND))
    area.put(2, f"date={FIRST}/empty.parquet", SCHEMA.empty_table())
    good, bad = area.arrive(2), area.land(3, rows(9, 4, day=SECOND))
    candidate = area.publish(good, bad)
    assert [refused.delivery for refused in candidate.refused] == [bad.delivery]
    read_again = {uri for uri in landed_uris(area, good) & set(second_reads) if not uri.endswith("empty.parquet")}
    assert {uri.split("/")[-2] for uri in read_again} == {f"date={SECOND}"}
    assert found(area) == [(1, 20, 2), (2, 20, 2), (3, 20, 2)]


def test_files_without_date_folders_are_validated_first_and_adopted_then(
    area: SparkJobFeed, second_reads: list[str]
) -> None:
    area.date_folders = False
    arrival = area.land(1, rows(1, 1, 2))
    area.publish(arrival)
    assert landed_uris(area, arrival) <= set(second_reads)
    assert area.entry(FIRST).plan == "adopt"
    assert found(area) == [(1, 10, 1), (2, 10, 1)]


@pytest.mark.parametrize("mode", MODES)
def test_a_replay_of_what_is_live_reads_nothing_at_all(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, mode: UpdateIdMode
) -> None:
    area.mode = mode
    area.publish(area.land(1, rows(1, 1, 2)))
    arrival = area.land(2, rows(2, 1) + rows(2, 5, day=SECOND))
    area.publish(arrival)
    assert area.manifest
    before = [(e.date, e.plan, e.files_digest) for e in area.manifest.dates]
    Path(area.uri(arrival.objects[0].name)).unlink()
    monkeypatch.setattr(pq, "ParquetFile", None)
    area.replay(arrival)
    monkeypatch.undo()
    assert area.manifest.applied == (arrival.delivery,)
    assert [(e.date, e.plan, e.files_digest) for e in area.manifest.dates] == before
    area.publish(area.land(3, rows(3, 1)))
    assert area.entry(FIRST).changed == 1


def test_a_replay_that_requests_a_rewrite_writes(area: SparkJobFeed) -> None:
    area.plan = Plan.REWRITE
    arrival = area.land(1, rows(1, 1, 2))
    area.publish(arrival)
    before = area.entry(FIRST).files_digest
    area.replay(arrival)
    assert area.entry(FIRST).files_digest != before
    assert found(area) == [(1, 10, 1), (2, 10, 1)]


def _delete(target: Path) -> None:
    target.unlink()


def _damage(target: Path) -> None:
    content = target.read_bytes()
    target.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _of_another_date(target: Path) -> None:
    target.write_bytes(target.with_name(f"{SECOND}.bin").read_bytes())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spoil", [_delete, _damage, _of_another_date])
def test_sketches_that_are_gone_or_wrong_are_computed_again(
    area: SparkJobFeed, mode: UpdateIdMode, spoil: Callable[[Path], None]
) -> None:
    area.mode = mode
    area.publish(area.land(1, rows(1, 1, 2) + rows(1, 7, day=SECOND)))
    spoil(Path(storage.join(area.data_uri(), stored.path_of(FIRST))))
    area.publish(area.land(2, rows(2, 2, 3) + rows(2, 7, 8, day=SECOND)))
    assert found(area) == [(1, 10, 1), (2, 20, 2), (3, 20, 2), (7, 20, 2), (8, 20, 2)]
    computed, used = "sketch of the parent computed", "sketch of the parent stored"
    if mode is UpdateIdMode.LAST_CHANGED:
        computed, used = "all rows compared", "differing rows compared"
    assert computed in area.entry(FIRST).plan_reason
    assert used in area.entry(SECOND).plan_reason
    area.publish(area.land(3, rows(3, 1, 2, 3, 4)))
    assert used in area.entry(FIRST).plan_reason


def test_cells_follow_the_growth_of_a_date(area: SparkJobFeed) -> None:
    """After one publish with more differences than cells, the next decodes its own."""
    for snapshot_id, products in enumerate((range(100), range(20_000), range(1, 20_001)), start=1):
        area.publish(area.land(snapshot_id, [row(snapshot_id, product, product) for product in products]))
        compared = "all rows compared" in area.entry(FIRST).plan_reason
        assert compared == (snapshot_id == 2)
    assert (area.entry(FIRST).new_keys, area.entry(FIRST).survivors) == (1, 1)


def test_of_more_differences_than_cells_only_rows_of_the_cells_that_are_left_are_compared(area: SparkJobFeed) -> None:
    """2,500 differing rows in 2,048 cells. One seed makes sketches equal in every run."""
    storage.write_text(storage.join(area.state, "fingerprint_seed"), "5e" * 32)
    area.publish(area.land(1, [row(1, product, product) for product in range(20_000)]))
    area.publish(area.land(2, [row(2, product, product + (product % 16 == 0)) for product in range(20_000)]))
    entry = area.entry(FIRST)
    (number,) = re.findall(r"\[(\d+)\] differing rows compared; sketch of the parent stored", entry.plan_reason)
    assert 1_250 <= int(number) < 4_000
    assert (entry.rows, entry.changed, entry.new_keys, entry.survivors) == (20_000, 1_250, 0, 0)


@pytest.mark.parametrize("plan", [Plan.AUTO, Plan.REWRITE])
def test_objects_are_named_as_often_for_each_date_however_many_there_are(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No date is a reason to look through the files of all others."""
    named, object_uri = [0], storage.object_uri

    def counted(bucket: str, name: str) -> str:
        named[0] += 1
        return object_uri(bucket, name)

    monkeypatch.setattr(storage, "object_uri", counted)

    def names_by(dates: int) -> int:
        days = [FIRST + timedelta(days=number) for number in range(dates)]
        folder = tmp_path / str(dates)
        area = SparkJobFeed(None, str(folder / "landing"), str(folder / "state"), PRODUCTS, plan=plan)
        area.publish(area.land(1, [row(1, 1, 1, day) for day in days]))
        arrival = area.land(2, [row(2, 1, 1, day) for day in days])
        named[0] = 0
        area.publish(arrival)
        return named[0]

    few, twice, thrice = names_by(3), names_by(6), names_by(9)
    assert thrice - twice == twice - few > 0
