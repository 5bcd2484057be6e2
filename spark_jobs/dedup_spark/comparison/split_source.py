"""Reads the parent's files of a large date, or a delivery's, in several Spark tasks: each task reads some of the files.

Tasks write rows and hashes as objects into a folder of the date, and later tasks compare them range by range. The
driver adds up the sums of buckets. Each pass reads a file once. Besides the sums, the driver has in memory only
repeated hashes, survivors, rows whose keys may be duplicate, and all rows of the parent if these are few.
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
from dedup_spark.comparison.hashed_files import RowHashers
from dedup_spark.comparison.key_comparison import repeated_in
from dedup_spark.comparison.key_reader import FilesRead, KeyReader
from dedup_spark.comparison.key_source import KeySource
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
FileNumbers = Sequence[int]
# Repeated hashes are yielded in arrays of about this length.
_REPEATED_AT_A_TIME = 1 << 16


class SplitKeySource(KeySource):
    """A KeySource whose passes run as Spark tasks. In a task, after pickling, it is an ordinary KeySource.

    `constant_ids`: for each file the update_id of all its rows; None if the rows' own ids have to be read. `sizes`:
    the bytes of each file. `tasks`: runs the passes.
    """

    def __init__(
        self,
        reader: KeyReader,
        hashers: RowHashers,
        uris: Sequence[str],
        constant_ids: Sequence[int | None],
        sizes: Sequence[int],
        tasks: PartTasks,
    ) -> None:
        super().__init__(reader, hashers, uris, constant_ids, MemoryBudget(0), threads=1)
        self._sizes = sizes
        self._tasks = tasks

    def __reduce__(self) -> tuple[Any, ...]:
        return _local_source, (self._files.reader, self._files.hashers, self._files.uris, self._files.constant_ids)

    def fingerprints(
        self, bits: int, *, file_numbers: FileNumbers | None = None, only_id: int | None = None
    ) -> BucketFingerprints:
        total = BucketFingerprints.empty(bits, with_values=self._files.hashers.values is not None)

        def sum_up(source: KeySource, file_numbers: FileNumbers, uri: str) -> str:
            sums = source.fingerprints(bits, file_numbers=file_numbers, only_id=only_id)
            stored.write(uri, stored.StoredFingerprints(0, sums), source.key_hasher)
            return sums.digest()

        for uri, digest in self._map(sum_up, "sum up keys by bucket", file_numbers):
            found = stored.read(uri, self.key_hasher, digest)
            assert found, f"object [{uri}] is not as a task wrote it"
            total.add_all(found.buckets)
            storage.delete(uri)
        return total

    def sum_sub_buckets(
        self,
        sums: SubBucketSums,
        only_id: int | None = None,
        *,
        remove: bool = False,
        file_numbers: FileNumbers | None = None,
    ) -> None:
        bits = sums.bits

        def sum_up(source: KeySource, file_numbers: FileNumbers, uri: str) -> None:
            file_sums = SubBucketSums(bits)
            source.sum_sub_buckets(file_sums, only_id, file_numbers=file_numbers)
            file_sums.save(uri)

        for uri, _ in self._map(sum_up, "sum up keys by sub-bucket", file_numbers):
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
        file_numbers: FileNumbers | None = None,
    ) -> Sequence[PartitionedHashes]:
        empty = selected.without_rows()

        def select(
            source: KeySource, file_numbers: FileNumbers, uri: str
        ) -> tuple[list[list[StoredRows]], SavedHashes]:
            rows = empty.without_rows()
            (hashes,) = source.select_and_hash(
                selector, rows, only_id, with_values=with_values, partitions=partitions, file_numbers=file_numbers
            )
            assert isinstance(hashes, SpillableHashes)
            return rows.save(uri), hashes.save(f"{uri}-hashes")

        found = self._map(select, "select the rows to compare", file_numbers)
        for _, (rows, _) in found:
            selected.add_saved(rows)
        return [hashes for _, (_, hashes) in found]

    def repeated_hashes(self, counts: npt.NDArray[Any], bits: int, limit: int) -> Iterator[U64Array]:
        partitions = max(PARTITIONS, -(-int(counts.sum(dtype=np.uint64)) // limit))

        def partition(source: KeySource, file_numbers: FileNumbers, uri: str) -> SavedHashes:
            hashes = SpillableHashes(partitions)
            source.visit_first_hashes(lambda firsts: hashes.add(firsts, firsts), file_numbers=file_numbers)
            return hashes.save(uri)

        saved = [hashes for _, hashes in self._map(partition, "hash keys")]
        found, hash_count = [], 0
        for repeated in self._tasks.map(_RepeatedHashes(saved), range(partitions), "find repeated hashes"):
            found.append(repeated)
            hash_count += len(repeated)
            if hash_count > _REPEATED_AT_A_TIME:
                yield np.sort(np.concatenate(found))
                found, hash_count = [], 0
        yield np.sort(np.concatenate([EMPTY_U64, *found]))

    def _map(
        self, work: Callable[[KeySource, FileNumbers, str], Found], step: str, file_numbers: FileNumbers | None = None
    ) -> list[tuple[str, Found]]:
        """Call `work` in a task for each part of the files. Return the URI given to each call, and its result.

        `step`: what the tasks do, for Spark's UI. Raises UnsuitableFile if a task that validates landed files failed.
        """
        numbers = range(len(self._files.uris)) if file_numbers is None else file_numbers
        parts = split_files(numbers, [self._sizes[number] for number in numbers], self._tasks.part_count)
        source = self._files.reader, self._files.hashers, self._files.uris, self._files.constant_ids
        results = self._tasks.map(_PartWork(source, work, self._tasks.folder_uri), parts, step)
        for result in results:
            if isinstance(result, str):
                raise UnsuitableFile(result)
            self._files.reader.add_files_read(result.read)
        return [(result.uri, result.found) for result in results if not isinstance(result, str)]


@dataclass(frozen=True)
class _PartResult(Generic[Found]):
    """What one task returns. `uri`: the URI that it was given. `read`: what its reader found out about files."""

    uri: str
    found: Found
    read: FilesRead


_SourceFields = tuple[KeyReader, RowHashers, Sequence[str], Sequence[int | None]]


def _local_source(
    reader: KeyReader, hashers: RowHashers, uris: Sequence[str], constant_ids: Sequence[int | None]
) -> KeySource:
    return KeySource(reader, hashers, uris, constant_ids, MemoryBudget(0), threads=1)


@dataclass(frozen=True)
class _PartWork(Generic[Found]):
    """Calls `work` with a source that has read nothing yet, the numbers of the files to read, and a URI to write to.

    With a reader that validates landed files, the text of any error is returned instead of raising it: the file may be
    at fault, and Spark would repeat a task that raises.
    """

    source: _SourceFields
    work: Callable[[KeySource, FileNumbers, str], Found]
    folder_uri: str

    def __call__(self, file_numbers: FileNumbers) -> _PartResult[Found] | str:
        shared_reader, hashers, uris, constant_ids = self.source
        reader, uri = copy(shared_reader), storage.join(self.folder_uri, uuid4().hex)
        try:
            found = self.work(_local_source(reader, hashers, uris, constant_ids), file_numbers, uri)
        except Exception as error:
            if isinstance(reader, ValidatingReader):
                return f"{type(error).__name__}: {error}"
            raise
        return _PartResult(uri, found, reader.files_read())


@dataclass(frozen=True)
class _RepeatedHashes:
    """Returns the hashes (the first of the two hashes of a key) that several rows of one partition have, ascending."""

    saved: Sequence[SavedHashes]

    def __call__(self, number: int) -> U64Array:
        return repeated_in(np.sort(np.concatenate([hashes.partition(number)[0] for hashes in self.saved])))


def split_files(numbers: FileNumbers, sizes: Sequence[int], parts: int) -> list[FileNumbers]:
    """Divide files into at most `parts` parts of similar size in bytes; without files there is one empty part."""
    batches: list[list[int]] = [[] for _ in range(max(1, min(parts, len(numbers))))]
    loads = [(0, batch) for batch in range(len(batches))]
    for size, number in sorted(zip(sizes, numbers, strict=True), reverse=True):
        load, batch = heappop(loads)
        batches[batch].append(number)
        heappush(loads, (load + size, batch))
    return [sorted(batch) for batch in batches]
