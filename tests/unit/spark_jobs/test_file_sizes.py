"""How large written files should be, and when a date has so many small ones that they become few."""

from __future__ import annotations

from datetime import date

import pytest

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.request import MAX_TABLE_FILES
from dedup_spark.landing.file_validation import LandedFile
from dedup_spark.output.file_sizes import are_fragmented, file_bytes_within_limit, target_file_bytes
from dedup_spark.parent import no_parent

MEGABYTE = 1 << 20


def files(count: int, size: int) -> list[DataFile]:
    return [DataFile(f"{n}", date(2026, 1, 1), 1, size, 1, 1) for n in range(count)]


def test_the_size_asked_for_holds_while_a_generation_may_have_all_files() -> None:
    assert file_bytes_within_limit(256 * MEGABYTE, 15 << 40) == 256 * MEGABYTE


def test_a_table_of_many_terabytes_has_files_so_large_that_a_generation_may_have_them() -> None:
    table = 150 << 40
    assert table / file_bytes_within_limit(256 * MEGABYTE, table) <= MAX_TABLE_FILES / 2


def test_a_table_is_expected_to_be_as_large_as_its_largest_delivery_not_as_all_together() -> None:
    landed = [LandedFile(f"{snapshot_id}", 80 << 40, snapshot_id, None) for snapshot_id in (1, 2)]
    assert target_file_bytes(1, landed, no_parent()) == target_file_bytes(1, landed[:1], no_parent())


@pytest.mark.parametrize(
    ("count", "size", "fragmented"),
    [
        (8, MEGABYTE, False),  # few
        (9, MEGABYTE, True),
        (80, 256 * MEGABYTE, False),  # large
        (80, 100 * MEGABYTE, False),  # not much would be gained
        (200, 40 * MEGABYTE, True),
    ],
)
def test_files_are_fragmented_when_they_are_several_times_as_many_as_needed(
    count: int, size: int, fragmented: bool
) -> None:
    assert are_fragmented(files(count, size), 256 * MEGABYTE) is fragmented
