"""A file is called broken only if its bytes cannot be parsed, never because storage failed."""

from __future__ import annotations

import io
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.state.parquet_footers import read_footers
from dedup_clone.state.store import ObjectStore


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2], "s": [{"a": 1}, None], "l": [["x"], []]}), buffer)
    return buffer.getvalue()


class CutConnection(io.BytesIO):
    def read(self, *_: Any) -> bytes:
        raise ConnectionResetError("the connection was cut")


class Answers:
    """A store whose answers are given, one for each time that the object is opened."""

    def __init__(self, *answers: bytes | IO[bytes]) -> None:
        self.answers = list(answers)

    def open(self, name: str) -> IO[bytes]:
        answer = self.answers.pop(0)
        return io.BytesIO(answer) if isinstance(answer, bytes) else answer

    @property
    def store(self) -> ObjectStore:
        return cast("ObjectStore", self)


def test_the_columns_of_a_file_are_those_of_its_schema() -> None:
    (footer,) = read_footers(Answers(parquet()).store, ["a"])
    assert (footer.rows, footer.problem) == (2, None)
    assert [(leaf.column, leaf.is_nested, leaf.physical_type) for leaf in footer.leaves] == [
        ("n", False, "INT64"),
        ("s", True, "INT64"),
        ("l", True, "BYTE_ARRAY"),
    ]


def test_a_file_without_its_end_has_a_problem_with_a_hint() -> None:
    broken = parquet()[:-4]
    (footer,) = read_footers(Answers(broken, broken, broken).store, ["a"])
    assert (footer.rows, footer.leaves) == (0, ())
    assert footer.problem
    assert footer.problem.startswith("Parquet magic bytes not found")
    assert footer.problem.endswith("it looks like a Parquet file without its end: upload it whole")


def test_an_answer_that_was_cut_off_once_is_asked_for_again() -> None:
    (footer,) = read_footers(Answers(parquet()[:-4], parquet()).store, ["a"])
    assert (footer.rows, footer.problem) == (2, None)


@pytest.mark.parametrize("answers", [[CutConnection(parquet())], [b"PAR1", CutConnection(parquet())]])
def test_a_lost_connection_is_no_problem_of_the_file(answers: list[bytes | IO[bytes]]) -> None:
    with pytest.raises(ConnectionResetError, match="the connection was cut"):
        read_footers(Answers(*answers).store, ["a"])
