"""Digests of tables are equal for equal rows in any files, and differ for other rows."""

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


def digest_of(*files: str) -> TableDigest:
    return DigestReader(lambda name: Path(name).open("rb"), lambda name: name).digest(list(files))


def test_files_and_order_do_not_matter(tmp_path: Path) -> None:
    whole = digest_of(write(tmp_path / "whole.parquet", ROWS))
    parts = digest_of(write(tmp_path / "a.parquet", ROWS[:0:-1]), write(tmp_path / "b.parquet", ROWS[:1]))
    assert whole == parts
    assert whole.rows == len(ROWS)


def test_the_date_may_be_in_the_name_of_the_folder(tmp_path: Path) -> None:
    march = write(tmp_path / "out/date=2026-03-01/a.parquet", ROWS[:2], COLUMNS[1:])
    april = write(tmp_path / "out/date=2026-04-01/a.parquet", ROWS[2:], COLUMNS[1:])
    assert digest_of(march, april) == digest_of(write(tmp_path / "whole.parquet", ROWS))


def test_a_file_without_any_date_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither a column nor a folder"):
        digest_of(write(tmp_path / "a.parquet", ROWS, COLUMNS[1:]))


@pytest.mark.parametrize("column", range(len(COLUMNS)))
def test_a_change_in_any_column_changes_the_digest(tmp_path: Path, column: int) -> None:
    changed = list(ROWS[0])
    changed[column] = APRIL if column == 0 else 99
    changed_rows = [(changed[0], *changed[1:]), *ROWS[1:]]
    found = digest_of(write(tmp_path / "a.parquet", changed_rows))  # type: ignore[arg-type]
    assert found != digest_of(write(tmp_path / "b.parquet", ROWS))


def test_a_doubled_row_instead_of_another_changes_the_digest(tmp_path: Path) -> None:
    twice = digest_of(write(tmp_path / "a.parquet", [ROWS[0], ROWS[0], ROWS[2]]))
    assert twice.rows == len(ROWS)
    assert twice != digest_of(write(tmp_path / "b.parquet", ROWS))


def test_a_change_of_a_text_key_changes_the_digest(tmp_path: Path) -> None:
    digest = digest_of(write(tmp_path / "a.parquet", [(MARCH, "product-7", 1, 1, 20, 5)]))
    assert digest != digest_of(write(tmp_path / "b.parquet", [(MARCH, "product-8", 1, 1, 20, 5)]))


def test_files_of_one_identity_are_read_once(tmp_path: Path) -> None:
    opened: list[str] = []

    def open_file(name: str) -> pa.NativeFile:
        opened.append(name)
        return pa.OSFile(name)

    first = write(tmp_path / "a.parquet", ROWS)
    reader = DigestReader(open_file, lambda name: "one identity")
    reader.digest([first])
    reader.digest([str(tmp_path / "a hard link.parquet")])
    assert opened == [first]
