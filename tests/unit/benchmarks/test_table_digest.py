"""Fingerprints of tables: equal for equal rows in any files, different for anything else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.table_digest import COLUMNS, DigestReader, TableDigest

Row = tuple[date, int | str, int, int, int, int]
MARCH, APRIL = date(2026, 3, 1), date(2026, 4, 1)
ROWS: list[Row] = [(MARCH, 7, 1, 1, 20, 5), (MARCH, 8, 1, 1, 20, 5), (APRIL, 7, 1, 1, 20, 5)]


def write(path: Path, rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    pq.write_table(table.select(list(columns)), path)
    return str(path)


def judged(*files: str) -> TableDigest:
    return DigestReader(lambda name: Path(name).open("rb"), lambda name: name).digest(list(files))


def test_files_and_order_do_not_matter(tmp_path: Path) -> None:
    whole = judged(write(tmp_path / "whole.parquet", ROWS))
    parts = judged(write(tmp_path / "a.parquet", ROWS[:0:-1]), write(tmp_path / "b.parquet", ROWS[:1]))
    assert whole == parts
    assert whole.rows == len(ROWS)


def test_a_folder_may_say_the_date(tmp_path: Path) -> None:
    march = write(tmp_path / "out/date=2026-03-01/a.parquet", ROWS[:2], COLUMNS[1:])
    april = write(tmp_path / "out/date=2026-04-01/a.parquet", ROWS[2:], COLUMNS[1:])
    assert judged(march, april) == judged(write(tmp_path / "whole.parquet", ROWS))


def test_a_file_without_any_date_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither a column nor a folder"):
        judged(write(tmp_path / "a.parquet", ROWS, COLUMNS[1:]))


@pytest.mark.parametrize("place", range(len(COLUMNS)))
def test_every_column_counts(tmp_path: Path, place: int) -> None:
    changed = list(ROWS[0])
    changed[place] = APRIL if place == 0 else 99
    other = [(changed[0], *changed[1:]), *ROWS[1:]]
    found = judged(write(tmp_path / "a.parquet", other))  # type: ignore[arg-type]
    assert found != judged(write(tmp_path / "b.parquet", ROWS))


def test_a_row_twice_and_another_missing_is_seen(tmp_path: Path) -> None:
    twice = judged(write(tmp_path / "a.parquet", [ROWS[0], ROWS[0], ROWS[2]]))
    assert twice.rows == len(ROWS)
    assert twice != judged(write(tmp_path / "b.parquet", ROWS))


def test_text_keys_count(tmp_path: Path) -> None:
    one = judged(write(tmp_path / "a.parquet", [(MARCH, "product-7", 1, 1, 20, 5)]))
    assert one != judged(write(tmp_path / "b.parquet", [(MARCH, "product-8", 1, 1, 20, 5)]))


def test_files_of_one_identity_are_read_once(tmp_path: Path) -> None:
    opened: list[str] = []

    def open_file(name: str) -> pa.NativeFile:
        opened.append(name)
        return pa.OSFile(name)

    first = write(tmp_path / "a.parquet", ROWS)
    judge = DigestReader(open_file, lambda name: "one identity")
    judge.digest([first])
    judge.digest([str(tmp_path / "a hard link.parquet")])
    assert opened == [first]
