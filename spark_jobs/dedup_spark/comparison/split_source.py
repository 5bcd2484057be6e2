"""Reads the parent's files of a large date, or a delivery's, in several Spark tasks: each task reads some of the files.

Tasks write sketches and rows as objects into a folder of the date. The driver adds up the sketches, and later tasks
compare the rows range by range. Each pass reads a file once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar
from uuid import uuid4

import numpy as np

from dedup_spark import storage
from dedup_spark.arrays import EMPTY_U64, U64Array
from dedup_spark.comparison.key_reader import FilesRead, KeyReader
from dedup_spark.comparison.key_source import FileNumbers, KeySource
from dedup_spark.comparison.ranged_rows import RangedRows, StoredRows
from dedup_spark.comparison.selected_rows import RowSelector
from dedup_spark.comparison.validating_reader import UnsuitableFile, ValidatingReader
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.sketch import stored
from dedup_spark.sketch.row_words import OutOfSpan, RowEncoder
from dedup_spark.sketch.sketch import CellsLeft, Sketch

Found = TypeVar("Found")


class SplitKeySource(KeySource):
    """A KeySource whose passes run as Spark tasks. In a task, after pickling, it is an ordinary KeySource.

    `constant_ids`: for each file the update_id of all its rows; None if the rows' own ids have to be read. `sizes`:
    the bytes of each file. `tasks`: runs the passes.
    """

    def __init__(
        self,
        reader: KeyReader,
        encoder: RowEncoder,
        uris: Sequence[str],
        constant_ids: Sequence[int | None],
        sizes: Sequence[int],
        tasks: PartTasks,
    ) -> None:
        super().__init__(reader, encoder, uris, constant_ids)
        self._sizes = sizes
        self._tasks = tasks

    def __reduce__(self) -> tuple[Any, ...]:
        return KeySource, (self.reader, self.encoder, self.uris, self._constant_ids)

    def sketch(self, bits: int, *, file_numbers: FileNumbers | None = None, only_id: int | None = None) -> Sketch:
        total = Sketch.empty(self.encoder, bits)

        def sum_up(source: KeySource, file_numbers: FileNumbers, uri: str) -> str:
            sketch = source.sketch(bits, file_numbers=file_numbers, only_id=only_id)
            stored.write(uri, stored.StoredSketch(0, sketch))
            return sketch.digest()

        for uri, digest in self._map(sum_up, "sum up rows", file_numbers):
            found = stored.read(uri, self.encoder, digest)
            assert found, f"object [{uri}] is not as a task wrote it"
            total.add_all(found.sketch)
            storage.delete(uri)
        return total

    def select_into(
        self, selected: RangedRows, selector: RowSelector, *, file_numbers: FileNumbers | None = None
    ) -> None:
        empty = selected.without_rows()

        def select(source: KeySource, file_numbers: FileNumbers, uri: str) -> list[list[StoredRows]]:
            rows = empty.without_rows()
            source.select_into(rows, selector, file_numbers=file_numbers)
            return rows.save(uri)

        for _, rows in self._map(select, "select the rows to compare", file_numbers):
            selected.add_saved(rows)

    def repeated_codes(self, range_count: int) -> Iterator[U64Array]:
        """Yield as KeySource does. Each task reads the keys of all files, but has only one range of codes in memory."""
        count = max(range_count, self._tasks.part_count)
        yield from self._tasks.map(_RepeatedCodes(copy(self), count), range(count), "find repeated keys")

    def codes(self, selector: RowSelector, file_numbers: FileNumbers | None = None) -> U64Array:
        def codes(source: KeySource, file_numbers: FileNumbers, _: str) -> U64Array:
            return source.codes(selector, file_numbers)

        return np.concatenate([EMPTY_U64, *(found for _, found in self._map(codes, "look keys up", file_numbers))])

    def codes_in(self, cells: CellsLeft, file_numbers: FileNumbers | None = None) -> U64Array:
        def codes(source: KeySource, file_numbers: FileNumbers, _: str) -> U64Array:
            return source.codes_in(cells, file_numbers)

        return np.concatenate(
            [EMPTY_U64, *(found for _, found in self._map(codes, "look up rows of cells", file_numbers))]
        )

    def _map(
        self, work: Callable[[KeySource, FileNumbers, str], Found], step: str, file_numbers: FileNumbers | None = None
    ) -> list[tuple[str, Found]]:
        """Call `work` in a task for each part of the files. Return the URI given to each call, and its result.

        `step`: what the tasks do, for Spark's UI. Raises OutOfSpan, and UnsuitableFile if a task that validates landed
        files failed.
        """
        numbers = self._numbers(file_numbers)
        parts = split_files(numbers, [self._sizes[number] for number in numbers], self._tasks.part_count)
        results = self._tasks.map(_PartWork(self, work, self._tasks.folder_uri), parts, step)
        for result in results:
            if isinstance(result, Exception):
                raise result
            self.reader.add_files_read(result.read)
        return [(result.uri, result.found) for result in results if not isinstance(result, Exception)]


@dataclass(frozen=True)
class _PartResult(Generic[Found]):
    """What one task returns. `uri`: the URI that it was given. `read`: what its reader found out about files."""

    uri: str
    found: Found
    read: FilesRead


@dataclass(frozen=True)
class _PartWork(Generic[Found]):
    """Calls `work` with a source that has read nothing yet, the numbers of the files to read, and a URI to write to.

    With a reader that validates landed files, the text of any error is returned instead of raising it: the file may be
    at fault, and Spark would repeat a task that raises.
    """

    source: KeySource
    work: Callable[[KeySource, FileNumbers, str], Found]
    folder_uri: str

    def __call__(self, file_numbers: FileNumbers) -> _PartResult[Found] | Exception:
        source, uri = copy(self.source), storage.join(self.folder_uri, uuid4().hex)
        source.reader = copy(source.reader)
        try:
            found = self.work(source, file_numbers, uri)
        except OutOfSpan as error:
            return error
        except Exception as error:
            if isinstance(source.reader, ValidatingReader):
                return UnsuitableFile(f"{type(error).__name__}: {error}")
            raise
        return _PartResult(uri, found, source.reader.files_read())


@dataclass(frozen=True)
class _RepeatedCodes:
    """Returns the key codes that several rows of one range have."""

    source: KeySource
    range_count: int

    def __call__(self, number: int) -> U64Array:
        return self.source.repeated_in_range(number, self.range_count)


def split_files(numbers: FileNumbers, sizes: Sequence[int], parts: int) -> list[FileNumbers]:
    """Divide files into at most `parts` parts of similar size in bytes; without files there is one empty part."""
    batches: list[list[int]] = [[] for _ in range(max(1, min(parts, len(numbers))))]
    loads = [(0, batch) for batch in range(len(batches))]
    for size, number in sorted(zip(sizes, numbers, strict=True), reverse=True):
        load, batch = heappop(loads)
        batches[batch].append(number)
        heappush(loads, (load + size, batch))
    return [sorted(batch) for batch in batches]
