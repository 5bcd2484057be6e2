"""One input of a date's comparison: the files of a delivery or of the parent generation, read in at most two passes.

The first pass sums up the rows in a sketch. The second, if it is needed, returns the rows of some keys or of all. The
files of a large date are divided over Spark tasks in each pass: what these find in parts of the files is added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa

from dedup_spark import storage
from dedup_spark.arrays import EMPTY_I64, EMPTY_U64, I64Array, U64Array
from dedup_spark.column_types import arrow_type
from dedup_spark.comparison.key_comparison import KeySet, repeated_in
from dedup_spark.comparison.key_reader import FilesRead, KeyBatch, KeyReader
from dedup_spark.comparison.ranged_rows import RangedRows, StoredRows, range_of
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.comparison.selected_rows import NO_FILE, Columns, RowSelector, SelectedRows, concat_rows, take_rows
from dedup_spark.comparison.validating_reader import UnsuitableFile, ValidatingReader
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.sketch import stored
from dedup_spark.sketch.row_words import OutOfSpan, RowEncoder
from dedup_spark.sketch.sketch import CellsLeft, Sketch

Found = TypeVar("Found")
FileNumbers = Sequence[int]
# At most this many bytes of value columns of selected rows are kept for each range, so that survivors among these rows
# need not be read again. Rows that can be packed have small values, which are always kept.
_VALUE_BYTES = 64 << 20
# About this many selected rows are collected before they are added to the others.
_ROWS_AT_A_TIME = 1 << 18


class KeySource:
    """The rows of the files `uris`, which are numbered from 0.

    `constant_ids`: for each file the update_id of all its rows; None if the rows' own ids have to be read.
    `cache_bytes`: how many bytes of key codes the first pass may keep. `parts`: divides the files, whose sizes in bytes
    are then in `sizes`, over Spark tasks; None to read them in this process. Tasks get a source without `parts`.
    """

    def __init__(
        self,
        reader: KeyReader,
        encoder: RowEncoder,
        uris: Sequence[str],
        constant_ids: Sequence[int | None],
        cache_bytes: int = 0,
        sizes: Sequence[int] = (),
        parts: PartTasks | None = None,
    ) -> None:
        self.reader, self.encoder, self.uris = reader, encoder, uris
        self._constant_ids = constant_ids
        self._free_bytes = 0 if parts else cache_bytes
        self._cached_codes: dict[int, U64Array] = {}
        self._sizes, self._parts = sizes, parts

    def __reduce__(self) -> tuple[Any, ...]:
        return KeySource, (self.reader, self.encoder, self.uris, self._constant_ids)

    def sketch(self, bits: int, *, file_numbers: FileNumbers | None = None, only_id: int | None = None) -> Sketch:
        """Return a sketch, with `2**bits` cells in each table, of all rows or of some.

        `file_numbers`: only of rows in these files. `only_id`: only of rows with this update_id; no file may have
        another constant id. Raises OutOfSpan, and what the reader of a damaged file raises.
        """
        if self._parts is None:
            return self._sketch(bits, self._numbers(file_numbers), only_id)

        def sum_up(source: KeySource, numbers: FileNumbers, uri: str) -> tuple[str, str]:
            sketch = source._sketch(bits, numbers, only_id)
            stored.write(uri, stored.StoredSketch(0, sketch))
            return uri, sketch.digest()

        total = Sketch.empty(self.encoder, bits)
        for uri, digest in self._in_parts(sum_up, "sum up rows", file_numbers):
            found = stored.read(uri, self.encoder, digest)
            assert found, f"object [{uri}] is not as a task wrote it"
            total.add_all(found.sketch)
            storage.delete(uri)
        return total

    def _sketch(self, bits: int, file_numbers: FileNumbers, only_id: int | None) -> Sketch:
        total = Sketch.empty(self.encoder, bits)
        for number in file_numbers:
            codes: list[U64Array] = []
            for words, batch in self._words(number, only_id):
                if self._free_bytes > 0:
                    codes.append(words[0] if not self.encoder.is_packed else self._codes_of(batch))
                total.add(words)
            self._cache(number, codes)
        return total

    def _cache(self, number: int, codes: list[U64Array]) -> None:
        """Keep the key codes of a file, if there is room for all of them."""
        size = sum(array.nbytes for array in codes)
        if 0 < size <= self._free_bytes:
            self._free_bytes -= size
            self._cached_codes[number] = np.concatenate(codes)

    def words(self, keys: Columns, values: Columns) -> U64Array:
        """The words of rows that are given by their key columns and value columns."""
        columns = ([column.combine_chunks() for column in some] for some in (keys, values))
        return self.encoder.words(*columns)

    def whole_rows(self, file_number: int, row_numbers: I64Array) -> Iterator[pa.Table]:
        """Yield the rows with these numbers, which ascend, of one file, with all columns."""
        return read_rows(self.reader, RowSource.selected_rows(self.uris[file_number], len(row_numbers), row_numbers))

    def repeated(self, codes: U64Array) -> U64Array:
        """Those of these key codes that several rows have, sorted as `codes` are. Keys with equal codes may differ."""
        return repeated_in(np.sort(self.codes(KeySet.from_sorted(codes).indices_in))) if len(codes) else codes

    def words_in(
        self, cells: CellsLeft, *, file_numbers: FileNumbers | None = None, only_id: int | None = None
    ) -> U64Array:
        """The words of the rows that are in these cells. The other parameters are those of `sketch`."""

        def words_left(source: KeySource, numbers: FileNumbers, _: str) -> U64Array:
            found = [np.zeros((source.encoder.word_count, 0), np.uint64)]
            for words in (words for number in numbers for words, _ in source._words(number, only_id)):
                found.append(words[:, cells.rows_in(words)])
            return np.concatenate(found, axis=1)

        return np.concatenate(self._in_parts(words_left, "look up rows of cells", file_numbers), axis=1)

    def _words(self, number: int, only_id: int | None) -> Iterator[tuple[U64Array, KeyBatch]]:
        """Yield the words of a file's rows, or of those with this update_id, batch by batch, and the batches."""
        for batch in self._batches(number, with_values=True):
            assert batch.value_columns is not None
            words = self.encoder.words(batch.key_columns, batch.value_columns)
            if only_id is not None and batch.update_ids is not None:
                words = words[:, batch.update_ids == only_id]
            yield words, batch

    def repeated_codes(self, range_count: int) -> Iterator[U64Array]:
        """Yield the key codes that several rows have, sorted, for each of at least `range_count` ranges of codes.

        Each task reads the keys of all files, but has only one range of codes in memory.
        """
        if self._parts is None:
            return map(partial(self._repeated_in_range, range_count), range(range_count))
        count = max(range_count, self._parts.part_count)
        return iter(self._parts.map(partial(copy(self)._repeated_in_range, count), range(count), "find repeated keys"))

    def _repeated_in_range(self, range_count: int, number: int) -> U64Array:
        """The codes of the range with this number that several rows have."""
        codes = self.codes(lambda found: np.flatnonzero(range_of(found, range_count) == number))
        codes.sort()  # in place: they may take a quarter of a worker's memory
        return repeated_in(codes)

    def codes(self, selector: RowSelector, file_numbers: FileNumbers | None = None) -> U64Array:
        """The key codes of the rows that `selector` selects, in all files or in these."""

        def codes(source: KeySource, numbers: FileNumbers, _: str) -> U64Array:
            selected = (found[selector(found)] for number in numbers for found in source._codes_in(number))
            return np.concatenate([EMPTY_U64, *selected])

        return np.concatenate(self._in_parts(codes, "look keys up", file_numbers))

    def _codes_in(self, number: int) -> Iterator[U64Array]:
        if number in self._cached_codes:
            yield self._cached_codes[number]
        else:
            yield from map(self._codes_of, self._batches(number, with_values=False))

    def _codes_of(self, batch: KeyBatch) -> U64Array:
        return self.encoder.key_codes(batch.key_columns)

    def select(self, selector: RowSelector, *, file_numbers: FileNumbers | None = None) -> SelectedRows:
        """The rows that `selector` selects, in memory, in all files or in these."""
        rows = RangedRows(1)
        self.select_into(rows, selector, file_numbers=file_numbers)
        return rows.of_range(0)

    def select_into(
        self, selected: RangedRows, selector: RowSelector, *, file_numbers: FileNumbers | None = None
    ) -> None:
        """Add the rows that `selector` selects to `selected`: in all files, or in these."""
        if self._parts is None:
            return self._select(selected, selector, self._numbers(file_numbers))
        range_count = selected.range_count

        def select(source: KeySource, numbers: FileNumbers, uri: str) -> list[list[StoredRows]]:
            rows = RangedRows(range_count)
            source._select(rows, selector, numbers)
            return rows.save(uri)

        for saved in self._in_parts(select, "select the rows to compare", file_numbers):
            selected.add_saved(saved)
        return None

    def _select(self, selected: RangedRows, selector: RowSelector, file_numbers: FileNumbers) -> None:
        free_bytes, row_count, found = selected.range_count * _VALUE_BYTES, 0, [self._no_rows()]
        for rows in (rows for number in file_numbers for rows in self._selected(number, selector)):
            free_bytes -= 0 if self.encoder.is_packed else sum(column.nbytes for column in rows.value_columns or ())
            found.append(rows if free_bytes > 0 else replace(rows, value_columns=None))
            row_count += len(rows)
            if row_count > _ROWS_AT_A_TIME:
                selected.add(concat_rows(found))
                row_count, found = 0, [self._no_rows()]
        selected.add(concat_rows(found))

    def _selected(self, number: int, selector: RowSelector) -> Iterator[SelectedRows]:
        """Yield the selected rows of one file, batch by batch."""
        cached = self._cached_codes.get(number)
        if cached is not None and not len(selector(cached)):
            return
        for batch in self._batches(number, with_values=True):
            first, stop = batch.first_row, batch.first_row + batch.rows
            indices = selector(self._codes_of(batch) if cached is None else cached[first:stop])
            if len(indices):
                assert batch.value_columns is not None
                ids = batch.update_ids
                yield self.rows(
                    take_rows(batch.key_columns, indices),
                    take_rows(batch.value_columns, indices),
                    np.full(len(indices), self._constant_ids[number], np.int64) if ids is None else ids[indices],
                    file_number=number,
                    row_numbers=indices.astype(np.int64) + batch.first_row,
                )

    def rows(
        self,
        keys: Sequence[pa.Array],
        values: Sequence[pa.Array],
        update_ids: I64Array,
        *,
        file_number: int = NO_FILE,
        row_numbers: I64Array | None = None,
    ) -> SelectedRows:
        """Rows that are given by their columns, in the form in which they are compared.

        `row_numbers`: their numbers in the file `file_number`; None for rows that were decoded from a sketch.
        """
        count = len(update_ids)
        return SelectedRows(
            key_columns=tuple(map(_chunked, keys)),
            file_numbers=np.full(count, file_number, np.int32),
            row_numbers=np.arange(count) if row_numbers is None else row_numbers,
            update_ids=update_ids,
            value_hashes=self.encoder.value_hashes(keys, values),
            value_columns=tuple(map(_chunked, values)),
            codes=self.encoder.key_codes(keys),
        )

    def _no_rows(self) -> SelectedRows:
        keys, values = (
            [pa.array([], arrow_type(column)) for column in columns]
            for columns in (self.encoder.keys, self.encoder.values)
        )
        return self.rows(keys, values, EMPTY_I64)

    def _batches(self, number: int, *, with_values: bool) -> Iterator[KeyBatch]:
        with_ids = self._constant_ids[number] is None
        return self.reader.batches(self.uris[number], with_ids=with_ids, with_values=with_values)

    def _numbers(self, file_numbers: FileNumbers | None) -> FileNumbers:
        return range(len(self.uris)) if file_numbers is None else file_numbers

    def _in_parts(
        self,
        work: Callable[[KeySource, FileNumbers, str], Found],
        step: str,
        file_numbers: FileNumbers | None = None,
    ) -> list[Found]:
        """Call `work` for all of these files, or in a task for each part of them. Return the results.

        `work` gets a source, the numbers of the files, and the URI of an object to which a task may write. `step`: what
        the tasks do, for Spark's UI. Raises OutOfSpan, and UnsuitableFile if a task that validates landed files failed.
        """
        numbers = self._numbers(file_numbers)
        if self._parts is None:
            return [work(self, numbers, "")]
        groups = self._parts.split(numbers, [self._sizes[number] for number in numbers])
        results = []
        for result in self._parts.map(_PartWork(copy(self), work, self._parts.folder_uri), groups, step):
            if isinstance(result, Exception):
                raise result
            self.reader.add_files_read(result[1])
            results.append(result[0])
        return results


@dataclass(frozen=True)
class _PartWork(Generic[Found]):
    """Calls `work` with a source that has read nothing yet. Returns also what its reader found out about files.

    With a reader that validates landed files, the text of any error is returned instead of raising it: the file may be
    at fault, and Spark would repeat a task that raises.
    """

    source: KeySource
    work: Callable[[KeySource, FileNumbers, str], Found]
    folder_uri: str

    def __call__(self, file_numbers: FileNumbers) -> tuple[Found, FilesRead] | Exception:
        source = copy(self.source)
        source.reader = copy(source.reader)
        try:
            found = self.work(source, file_numbers, storage.join(self.folder_uri, uuid4().hex))
        except OutOfSpan as error:
            return error
        except Exception as error:
            if isinstance(source.reader, ValidatingReader):
                return UnsuitableFile(f"{type(error).__name__}: {error}")
            raise
        return found, source.reader.files_read()


def _chunked(array: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([array])
