"""One input of a date's comparison: the files of a delivery or of the parent generation, read in several passes.

The first pass sums up fingerprints, the last returns the keys of the buckets that differ, so memory does not grow with
the date. Passes between them are needed only to find duplicate keys, or the sub-buckets that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.arrays import EMPTY_I64, EMPTY_U64, I64Array, Indices, U64Array
from dedup_spark.column_types import SCALARS
from dedup_spark.comparison.bucket_ranges import EVERYTHING, split_buckets
from dedup_spark.comparison.bucket_selection import in_buckets
from dedup_spark.comparison.hashed_files import HashedBatch, HashedFiles, RowHashers
from dedup_spark.comparison.key_comparison import repeated_in
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.memory_budget import MemoryBudget
from dedup_spark.comparison.ranged_rows import RangedRows
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.comparison.selected_rows import RowSelector, SelectedRows, combine_chunks, concat_columns
from dedup_spark.comparison.spilled_hashes import PARTITIONS, PartitionedHashes, SpillableHashes
from dedup_spark.execution.fan_out import assign_round_robin
from dedup_spark.fingerprints.buckets import BucketFingerprints
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.sub_buckets import SubBucketSums

Result = TypeVar("Result")
# At most this many bytes of value columns of selected rows are kept for each range, so that survivors among these rows
# need not be read again.
_VALUE_BYTES = 64 << 20
# A thread collects about this many selected rows before it adds them to the rows of all threads.
_ROWS_AT_A_TIME = 1 << 18
_NO_FILE_NUMBERS: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)

# Selected rows of one batch: the number of the file, their row numbers in it, the rows.
_SelectedBatch = tuple[int, Indices, HashedBatch]


class KeySource:
    """The rows of the files `uris`, which are numbered from 0.

    `constant_ids`: for each file the update_id of all its rows; None if the rows' own ids have to be read. `budget`:
    the memory in which keys may be cached between the passes. `threads`: how many files are read at a time.
    `caches_values`: values are cached with the keys, and hashed only where rows are selected.
    """

    def __init__(
        self,
        reader: KeyReader,
        hashers: RowHashers,
        uris: Sequence[str],
        constant_ids: Sequence[int | None],
        budget: MemoryBudget,
        threads: int,
        *,
        caches_values: bool = False,
    ) -> None:
        self._files = HashedFiles(reader, hashers, uris, constant_ids, budget, caches_values)
        self._threads = threads

    def fingerprints(
        self, bits: int, *, file_numbers: Sequence[int] | None = None, only_id: int | None = None
    ) -> BucketFingerprints:
        """Return fingerprints, in `2**bits` buckets, of all rows or of some.

        `file_numbers`: only of rows in these files. `only_id`: only of rows with this update_id; no file may have
        another constant id. The fingerprints have no value sums if values are not compared, or if values are
        cached instead of hashed.
        """
        with_values = self._files.hashers.values is not None and not self._files.caches_values
        total, lock = BucketFingerprints.empty(bits, with_values=with_values), Lock()

        def add_files(numbers: Sequence[int]) -> None:
            for number in numbers:
                for hashed, second in self._files.first_pass(number):
                    first, values = hashed.first_hashes, hashed.value_hashes
                    if only_id is not None and hashed.batch.update_ids is not None:
                        has_id = hashed.batch.update_ids == only_id
                        first, second = first[has_id], second[has_id]
                        values = None if values is None else values[has_id]
                    with lock:
                        total.add(first, second, values)

        self._in_threads(add_files, file_numbers)
        return total

    @property
    def key_hasher(self) -> KeyHasher:
        return self._files.hashers.keys

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The names of the value columns."""
        return tuple(column.name for column in self._files.reader.table.value_columns)

    def whole_rows(self, file_number: int, row_numbers: I64Array) -> Iterator[pa.Table]:
        """Yield the rows with these numbers, which ascend, of one file, with all columns."""
        source = RowSource.selected_rows(self._files.uris[file_number], len(row_numbers), row_numbers)
        return read_rows(self._files.reader, source)

    def key_hashes(self, rows: SelectedRows) -> tuple[U64Array, U64Array]:
        """First and second hashes of the keys of selected rows."""
        return self._files.hashers.keys.both([column.combine_chunks() for column in rows.key_columns])

    def repeated_hashes(self, counts: npt.NDArray[Any], bits: int, limit: int) -> Iterator[U64Array]:
        """Yield the first hashes that several rows have, in ascending arrays.

        `counts`: the number of rows in each of `2**bits` buckets. `limit`: about how many hashes are sorted at a time.
        """
        for bucket_range in split_buckets(counts, limit):
            hashes = self._first_hashes(in_buckets(bucket_range.mask(bits), bits))
            hashes.sort()  # in place: they may take a quarter of a worker's memory
            yield repeated_in(hashes)

    def _first_hashes(self, selector: RowSelector) -> U64Array:
        """The first hashes of the rows that `selector` selects."""

        def hashes(numbers: Sequence[int]) -> list[U64Array]:
            batches = (hashed for number in numbers for hashed in self._files.second_pass(number, with_values=False))
            return [hashed.first_hashes[selector(hashed.first_hashes).selected] for hashed in batches]

        return np.concatenate([EMPTY_U64, *(found for of_thread in self._in_threads(hashes) for found in of_thread)])

    def sum_sub_buckets(
        self,
        sums: SubBucketSums,
        only_id: int | None = None,
        *,
        remove: bool = False,
        file_numbers: Sequence[int] | None = None,
    ) -> None:
        """Add to `sums` the first hashes of all rows, or of some (see `fingerprints`); with `remove`, subtract them."""
        self.visit_first_hashes(sums.remove if remove else sums.add, only_id, file_numbers)

    def visit_first_hashes(
        self, visit: Callable[[U64Array], None], only_id: int | None = None, file_numbers: Sequence[int] | None = None
    ) -> None:
        """Call `visit` with the first hashes, batch by batch: of all rows, or only of those in `file_numbers`.

        `only_id`: only of rows with this update_id.
        """
        lock = Lock()

        def visit_files(numbers: Sequence[int]) -> None:
            for number in numbers:
                if only_id is not None and self._files.constant_ids[number] not in (None, only_id):
                    continue
                for hashed in self._files.second_pass(number, with_values=False):
                    firsts, ids = hashed.first_hashes, hashed.batch.update_ids
                    if only_id is not None and ids is not None:
                        firsts = firsts[ids == only_id]
                    with lock:
                        visit(firsts)

        self._in_threads(visit_files, file_numbers)

    def select(self, selector: RowSelector, *, with_values: bool = False) -> SelectedRows:
        """The rows that `selector` selects, in memory. `with_values`: with value columns, if memory allows.

        Without `with_values` the rows have value columns, too, if these are cached or were read to compare values.
        """
        rows = RangedRows([EVERYTHING], 0)
        self.select_and_hash(selector, rows, with_values=with_values)
        return rows.of_range(0)

    def select_and_hash(
        self,
        selector: RowSelector,
        selected: RangedRows,
        only_id: int | None = None,
        *,
        with_values: bool = False,
        partitions: int = PARTITIONS,
        file_numbers: Sequence[int] | None = None,
    ) -> Sequence[PartitionedHashes]:
        """Add the rows that `selector` selects to `selected`. Return the hashes of the selector's `hash_only` rows.

        The hashes are divided into `partitions`, and returned for each thread, or for each part of a split date.
        `only_id`: hash only rows with this update_id. If values are not compared, no rows are hashed.
        `with_values`: see `select`. `file_numbers`: read only these files; None reads all.
        """
        compares_values = self._files.hashers.values is not None
        value_budget = MemoryBudget(_VALUE_BYTES * len(selected.ranges))

        def select(numbers: Sequence[int]) -> SpillableHashes:
            found: list[_SelectedBatch] = []
            hashes, rows_found = SpillableHashes(partitions), 0
            for number in numbers:
                for hashed in self._files.second_pass(number, with_values=with_values or compares_values):
                    rows, hash_only = selector(hashed.first_hashes)
                    if len(rows):
                        taken = self._files.take(hashed, rows, value_budget)
                        found.append((number, rows + hashed.batch.first_row, taken))
                        rows_found += len(rows)
                    if rows_found > _ROWS_AT_A_TIME:
                        selected.add(self._concat(found))
                        found, rows_found = [], 0
                    if compares_values and len(hash_only):
                        hash_only = self._files.with_id(number, hashed.batch, hash_only, only_id)
                        hashes.add(hashed.first_hashes[hash_only], self._files.value_hashes(hashed, hash_only))
            selected.add(self._concat(found))
            return hashes

        return self._in_threads(select, file_numbers)

    def _concat(self, found: Sequence[_SelectedBatch]) -> SelectedRows:
        batches = [taken.batch for _, _, taken in found]
        return SelectedRows(
            key_columns=combine_chunks(
                pa.chunked_array([batch.key_columns[index] for batch in batches], SCALARS[column.type].in_arrow)
                for index, column in enumerate(self._files.hashers.keys.columns)
            ),
            file_numbers=np.concatenate(
                [_NO_FILE_NUMBERS, *(np.full(len(rows), number, np.int32) for number, rows, _ in found)]
            ),
            row_numbers=np.concatenate([EMPTY_I64, *(rows.astype(np.int64) for _, rows, _ in found)]),
            update_ids=np.concatenate(
                [EMPTY_I64, *(self._files.update_ids(number, taken.batch) for number, _, taken in found)]
            ),
            first_hashes=np.concatenate([EMPTY_U64, *(taken.first_hashes for _, _, taken in found)]),
            value_hashes=np.concatenate(
                [EMPTY_U64, *(taken.value_hashes for _, _, taken in found if taken.value_hashes is not None)]
            ),
            value_columns=concat_columns([batch.value_columns for batch in batches]),
        )

    def _in_threads(
        self, work: Callable[[Sequence[int]], Result], file_numbers: Sequence[int] | None = None
    ) -> list[Result]:
        """In each thread, call `work` with the thread's share of the file numbers. Return the results."""
        numbers = range(len(self._files.uris)) if file_numbers is None else file_numbers
        threads = max(1, min(self._threads, len(numbers)))
        shares = assign_round_robin(numbers, threads)
        if threads == 1:
            return [work(shares[0])]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, shares))
