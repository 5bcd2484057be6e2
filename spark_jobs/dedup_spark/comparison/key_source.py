"""One input of a date's comparison: the files of a delivery or of the parent generation, read in at most two passes.

The first pass sums up the rows in a sketch. The second, if it is needed, returns the rows of some keys or of all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dedup_spark.arrays import EMPTY_I64, EMPTY_U64, I64Array, U64Array
from dedup_spark.arrow_cast import decoded
from dedup_spark.column_types import arrow_type
from dedup_spark.comparison.key_reader import KeyBatch, KeyReader
from dedup_spark.comparison.keys import repeated_in
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.comparison.selected_rows import (
    NO_FILE,
    Columns,
    RangedRows,
    RowSelector,
    SelectedRows,
    concat_rows,
    every_row,
    order_by_range,
    take_rows,
)
from dedup_spark.sketch.row_words import RowEncoder
from dedup_spark.sketch.sketch import Remainder, Sketch

FileNumbers = Sequence[int]
# At most this many bytes of value columns of selected rows are kept for each range, so that survivors among these rows
# need not be read again. Rows that can be packed have small values, which are always kept.
_VALUE_BYTES = 64 << 20
# So many cached codes are looked at together. A file may have many times as many.
_CODES_AT_A_TIME = 1 << 18


class KeySource:
    """The rows of the files `uris`, which are numbered from 0.

    `cache_bytes`: how many bytes of key codes the first pass may keep.
    """

    def __init__(self, reader: KeyReader, encoder: RowEncoder, uris: Sequence[str], cache_bytes: int = 0) -> None:
        self.reader, self.encoder, self.uris = reader, encoder, uris
        self._free_bytes = cache_bytes
        self._cached_codes: dict[int, U64Array] = {}

    def sketch(self, bits: int, *, file_numbers: FileNumbers | None = None, only_id: int | None = None) -> Sketch:
        """Return a sketch, with `2**bits` cells in each table, of all rows or of some.

        `file_numbers`: only of rows in these files. `only_id`: only of rows with this update_id. Raises OutOfSpan, and
        what the reader of a damaged file raises.
        """
        total = Sketch.empty(self.encoder, bits)
        for number in self._numbers(file_numbers):
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

    def with_values(self, rows: SelectedRows, max_bytes: int | None = None) -> SelectedRows | None:
        """The rows with their value columns, which are read if `rows` lacks them.

        Return None if the rows that are read for this take more than `max_bytes`.
        """
        if rows.value_columns is not None:
            return rows
        if not len(rows):
            return self._no_rows()
        order = np.lexsort((rows.row_numbers, rows.file_numbers))
        tables, size = [], 0
        for file in np.unique(rows.file_numbers):
            numbers = rows.row_numbers[order[rows.file_numbers[order] == file]]
            for table in read_rows(self.reader, RowSource.selected_rows(self.uris[file], numbers)):
                tables.append(table)
                size += table.nbytes
                if max_bytes is not None and size > max_bytes:
                    return None
        position = np.empty(len(order), np.intp)
        position[order] = np.arange(len(order))
        # A large date has thousands of chunks, and `take` would search all of them.
        read = pa.concat_tables(tables).combine_chunks().take(pa.array(position))
        return replace(rows, value_columns=tuple(read[column.name] for column in self.encoder.values))

    def repeated(self, selector: RowSelector) -> U64Array:
        """The key codes that several of the selected rows have, sorted. Keys with equal codes may differ."""
        codes = self.codes(selector)
        codes.sort()  # in place: they may take a quarter of a worker's memory
        return repeated_in(codes)

    def repeated_by_range(self, range_count: int) -> Iterator[U64Array]:
        """Yield the key codes that several rows have, range by range (`order_by_range`).

        The files are read once. With several ranges their codes go to temporary files, and one range is in memory at a
        time.
        """
        if range_count == 1:
            yield self.repeated(every_row)
            return
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile(prefix="dedup-clone-")) for _ in range(range_count)]
            for codes in (codes for number in self._numbers(None) for codes in self._codes_in(number)):
                order, edges = order_by_range(codes, range_count)
                for file, of_range in zip(files, np.split(codes[order], edges[1:-1]), strict=True):
                    file.write(of_range.tobytes())
            for file in files:
                file.seek(0)
                codes = np.fromfile(file, np.uint64)
                codes.sort()
                yield repeated_in(codes)

    def words_in(
        self, remainder: Remainder, *, file_numbers: FileNumbers | None = None, only_id: int | None = None
    ) -> U64Array:
        """The words of the rows in cells that are left. The other parameters are those of `sketch`."""
        found = [np.zeros((self.encoder.word_count, 0), np.uint64)]
        for number in self._numbers(file_numbers):
            found += [words[:, remainder.rows_in(words)] for words, _ in self._words(number, only_id)]
        return np.concatenate(found, axis=1)

    def _words(self, number: int, only_id: int | None) -> Iterator[tuple[U64Array, KeyBatch]]:
        """Yield the words of a file's rows, or of those with this update_id, batch by batch, and the batches."""
        for batch in self._batches(number, with_values=True):
            assert batch.value_columns is not None
            words = self.encoder.words(batch.key_columns, batch.value_columns)
            if only_id is not None:
                words = words[:, batch.update_ids == only_id]
            yield words, batch

    def codes(self, selector: RowSelector, file_numbers: FileNumbers | None = None) -> U64Array:
        """The key codes of the rows that `selector` selects, in all files or in these."""
        found = (codes for number in self._numbers(file_numbers) for codes in self._codes_in(number))
        return np.concatenate([EMPTY_U64, *(codes[selector(codes)] for codes in found)])

    def _codes_in(self, number: int) -> Iterator[U64Array]:
        cached = self._cached_codes.get(number)
        if cached is not None:
            yield from np.split(cached, range(_CODES_AT_A_TIME, len(cached), _CODES_AT_A_TIME))
        else:
            yield from map(self._codes_of, self._batches(number, with_values=False))

    def _codes_of(self, batch: KeyBatch) -> U64Array:
        return self.encoder.key_codes(batch.key_columns)

    def select(self, selector: RowSelector, *, file_numbers: FileNumbers | None = None) -> SelectedRows:
        """The rows that `selector` selects, in memory, in all files or in these."""
        rows = RangedRows(1)
        self.select_into(rows, selector, file_numbers=file_numbers)
        return rows.of_range(0)

    def first_rows(self, selector: RowSelector, count: int) -> SelectedRows:
        """The first rows that `selector` selects: at least `count`, if there are so many."""
        found = [self._no_rows()]
        for rows in (rows for number in self._numbers(None) for rows in self._selected(number, selector)):
            found.append(rows)
            count -= len(rows)
            if count <= 0:
                break
        return concat_rows(found)

    def select_into(
        self, selected: RangedRows, selector: RowSelector, *, file_numbers: FileNumbers | None = None
    ) -> None:
        """Add the rows that `selector` selects to `selected`: in all files, or in these."""
        free_bytes = selected.range_count * _VALUE_BYTES
        selected.add(self._no_rows())
        for rows in (rows for number in self._numbers(file_numbers) for rows in self._selected(number, selector)):
            free_bytes -= 0 if self.encoder.is_packed else sum(column.nbytes for column in rows.value_columns or ())
            selected.add(rows if free_bytes > 0 else replace(rows, value_columns=None))

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
                yield self.rows(
                    take_rows(batch.key_columns, indices),
                    take_rows(batch.value_columns, indices),
                    batch.update_ids[indices],
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
        keys, values = (tuple(map(decoded, columns)) for columns in (keys, values))
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

    def rows_of_words(self, words: U64Array, update_id: int) -> SelectedRows:
        """Packed rows with this update_id, which are given by their words."""
        columns, key_count = self.encoder.columns(words), len(self.encoder.keys)
        return self.rows(columns[:key_count], columns[key_count:], np.full(words.shape[1], update_id))

    def _no_rows(self) -> SelectedRows:
        keys, values = (
            [pa.array([], arrow_type(column)) for column in columns]
            for columns in (self.encoder.keys, self.encoder.values)
        )
        return self.rows(keys, values, EMPTY_I64)

    def _batches(self, number: int, *, with_values: bool) -> Iterator[KeyBatch]:
        return self.reader.batches(self.uris[number], with_values=with_values)

    def _numbers(self, file_numbers: FileNumbers | None) -> FileNumbers:
        return range(len(self.uris)) if file_numbers is None else file_numbers


def _chunked(array: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([array])
