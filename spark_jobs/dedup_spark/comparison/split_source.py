"""One input of a large date's comparison, whose files are read by several Spark tasks.

The driver holds what adds up to a few numbers for each bucket. Rows and hashes stay in objects of the date's own folder
until tasks compare them range by range, so no pass reads a file twice and the driver sees no rows but survivors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from dedup_spark import storage
from dedup_spark.arrays import EMPTY_U64, U64Array
from dedup_spark.comparison.key_comparison import repeated_in
from dedup_spark.comparison.key_reader import FilesRead, KeyReader
from dedup_spark.comparison.key_source import KeySource, RowHashers
from dedup_spark.comparison.memory_budget import MemoryBudget
from dedup_spark.comparison.ranged_rows import RangedRows, StoredRows
from dedup_spark.comparison.selected_rows import RowSelector
from dedup_spark.comparison.spilled_hashes import PARTITIONS, PartitionedHashes, SavedHashes, SpillableHashes
from dedup_spark.comparison.validating_reader import UnsuitableFile, ValidatingReader
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.fingerprints import stored
from dedup_spark.fingerprints.buckets import BucketFingerprints
from dedup_spark.fingerprints.sub_buckets import SubBucketSums

Found = TypeVar("Found")
Files = Sequence[int]  # numbers of files
# Rows of repeated keys are compared together for so many keys.
_REPEATED_AT_A_TIME = 1 << 16


class SplitKeySource(KeySource):
    """A KeySource whose passes are Spark tasks. In another process it is an ordinary KeySource.

    `sizes`: of the files, in bytes.
    """

    def __init__(
        self,
        reader: KeyReader,
        hashers: RowHashers,
        files: Sequence[str],
        ids: Sequence[int | None],
        sizes: Sequence[int],
        tasks: PartTasks,
    ) -> None:
        super().__init__(reader, hashers, files, ids, MemoryBudget(0), threads=1)
        self._sizes = sizes
        self._tasks = tasks

    def __reduce__(self) -> tuple[Any, ...]:
        return _local_source, (self._reader, self._hashers, self._files, self._constant_ids)

    def fingerprints(self, bits: int, *, files: Files | None = None, only_id: int | None = None) -> BucketFingerprints:
        total = BucketFingerprints.empty(bits, with_values=self._hashers.values is not None)

        def sum_up(source: KeySource, files: Files, uri: str) -> str:
            sums = source.fingerprints(bits, files=files, only_id=only_id)
            stored.write(uri, stored.StoredFingerprints(0, sums), source.key_hasher)
            return sums.digest()

        for uri, digest in self._map(sum_up, "sum up keys by bucket", files):
            found = stored.read(uri, self.key_hasher, digest)
            assert found, f"object [{uri}] is not as a task wrote it"
            total.add_all(found.buckets)
            storage.delete(uri)
        return total

    def sum_sub_buckets(
        self, sums: SubBucketSums, only_id: int | None = None, *, remove: bool = False, files: Files | None = None
    ) -> None:
        bits = sums.bits

        def sum_up(source: KeySource, files: Files, uri: str) -> None:
            part = SubBucketSums(bits)
            source.sum_sub_buckets(part, only_id, files=files)
            part.save(uri)

        for uri, _ in self._map(sum_up, "sum up keys by sub-bucket", files):
            sums.add_saved(uri, removed=remove)
            storage.delete(uri)

    def select_and_hash(
        self,
        selector: RowSelector,
        selected: RangedRows,
        only_id: int | None = None,
        *,
        with_values: bool = False,
        partitions: int = PARTITIONS,
        files: Files | None = None,
    ) -> Sequence[PartitionedHashes]:
        empty = selected.without_rows()

        def select(source: KeySource, files: Files, uri: str) -> tuple[list[list[StoredRows]], SavedHashes]:
            rows = empty.without_rows()
            (hashes,) = source.select_and_hash(
                selector, rows, only_id, with_values=with_values, partitions=partitions, files=files
            )
            assert isinstance(hashes, SpillableHashes)
            return rows.save(uri), hashes.save(f"{uri}-hashes")

        found = self._map(select, "select the rows to compare", files)
        for _, (rows, _) in found:
            selected.add_saved(rows)
        return [hashes for _, (_, hashes) in found]

    def repeated_hashes(self, counts: npt.NDArray[Any], bits: int, limit: int) -> Iterator[U64Array]:
        partitions = max(PARTITIONS, -(-int(counts.sum(dtype=np.uint64)) // limit))

        def partition(source: KeySource, files: Files, uri: str) -> SavedHashes:
            hashes = SpillableHashes(partitions)
            source.visit_first_hashes(lambda firsts: hashes.add(firsts, firsts), files=files)
            return hashes.save(uri)

        saved = [hashes for _, hashes in self._map(partition, "hash keys")]
        found, rows = [], 0
        for repeated in self._tasks.map(_RepeatedHashes(saved), range(partitions), "find repeated hashes"):
            found.append(repeated)
            rows += len(repeated)
            if rows > _REPEATED_AT_A_TIME:
                yield np.sort(np.concatenate(found))
                found, rows = [], 0
        yield np.sort(np.concatenate([EMPTY_U64, *found]))

    def _map(
        self, work: Callable[[KeySource, Files, str], Found], step: str, files: Files | None = None
    ) -> list[tuple[str, Found]]:
        """Call `work` in a task for each part of the files; return the URI that it could write to, and its result."""
        numbers = range(len(self._files)) if files is None else files
        parts = split_files(numbers, [self._sizes[number] for number in numbers], self._tasks.parts)
        source = self._reader, self._hashers, self._files, self._constant_ids
        results = self._tasks.map(_PartWork(source, work, self._tasks.folder_uri), parts, step)
        for result in results:
            if isinstance(result, str):
                raise UnsuitableFile(result)
            self._reader.add_files_read(result.read)
        return [(result.uri, result.found) for result in results if not isinstance(result, str)]


@dataclass(frozen=True)
class _PartResult(Generic[Found]):
    uri: str
    found: Found
    read: FilesRead


_SourceFields = tuple[KeyReader, RowHashers, Sequence[str], Sequence[int | None]]


def _local_source(reader: KeyReader, hashers: RowHashers, files: Sequence[str], ids: Sequence[int | None]) -> KeySource:
    return KeySource(reader, hashers, files, ids, MemoryBudget(0), threads=1)


@dataclass(frozen=True)
class _PartWork(Generic[Found]):
    """Calls `work` with a source that has read nothing yet, numbers of its files, and a URI to write to.

    Returns a text if files could not be validated: Spark would repeat the task after an error.
    """

    source: _SourceFields
    work: Callable[[KeySource, Files, str], Found]
    folder_uri: str

    def __call__(self, files: Files) -> _PartResult[Found] | str:
        shared_reader, hashers, uris, ids = self.source
        reader, uri = copy(shared_reader), storage.join(self.folder_uri, uuid4().hex)
        try:
            found = self.work(_local_source(reader, hashers, uris, ids), files, uri)
        except Exception as error:
            if isinstance(reader, ValidatingReader):
                return f"{type(error).__name__}: {error}"
            raise
        return _PartResult(uri, found, reader.files_read())


@dataclass(frozen=True)
class _RepeatedHashes:
    """Finds the hashes that repeat in one partition."""

    saved: Sequence[SavedHashes]

    def __call__(self, number: int) -> U64Array:
        return repeated_in(np.sort(np.concatenate([hashes.partition(number)[0] for hashes in self.saved])))


def split_files(numbers: Files, sizes: Sequence[int], parts: int) -> list[Files]:
    """Divide files into at most so many parts of similar size, one of them empty if there is no file."""
    batches: list[list[int]] = [[] for _ in range(max(1, min(parts, len(numbers))))]
    loads = [(0, batch) for batch in range(len(batches))]
    for size, number in sorted(zip(sizes, numbers, strict=True), reverse=True):
        load, batch = heappop(loads)
        batches[batch].append(number)
        heappush(loads, (load + size, batch))
    return [sorted(batch) for batch in batches]
