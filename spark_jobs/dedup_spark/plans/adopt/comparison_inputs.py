"""Opens the inputs of one date's comparison, and reads or computes the sketch of the parent's base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import Column
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.split_source import SplitKeySource
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.parent import PARENT_SOURCE, ParentDate
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.delivered_date import DeliveredDate
from dedup_spark.sketch.row_words import RowEncoder
from dedup_spark.sketch.sketch import Sketch, bits_for


@dataclass(frozen=True)
class ComparisonInputs:
    """The deliveries and the parent of one date, opened for comparison.

    `base_id`: the highest update_id of the parent's rows. The rows that have it are the parent's base, all others are
    survivors, which are in the files `survivor_files` (by number). `newest_id`: the snapshot id of the newest delivery.
    `older`: the source number (from 1; the parent is 0), the snapshot id and the reader of each older delivery, in
    ascending precedence. Sketches have `2**bits` cells in each table; that of the base may have another number if it
    was stored (`base_was_stored`). `parts`: runs parts of the comparison as Spark tasks; None to do all in this
    process. Without a parent, `parent`, `base` and `base_id` are None. `base` is None, too, if sketches do not count.
    """

    encoder: RowEncoder
    bits: int
    newest: KeySource
    older: tuple[tuple[int, int, KeySource], ...]
    parent: KeySource | None
    parent_rows: int
    base: Sketch | None
    base_id: int | None
    newest_id: int
    survivor_files: tuple[int, ...]
    base_was_stored: bool
    parts: PartTasks | None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The key columns."""
        return self.encoder.keys

    @property
    def newest_source(self) -> int:
        """The source number of the newest delivery."""
        return PARENT_SOURCE + 1 + len(self.older)

    def reader(self, source: int) -> KeySource:
        """The reader of the source with this number."""
        readers = {number: reader for number, _, reader in self.older} | {self.newest_source: self.newest}
        if self.parent:
            readers[PARENT_SOURCE] = self.parent
        return readers[source]

    def sketches(self) -> DeliveredSketches:
        """Read the deliveries' files and return their sketches. Raises what the reader of a damaged file raises."""
        newest = self.newest.sketch(self.bits)
        return DeliveredSketches(newest, tuple(source.sketch(self.bits) for _, _, source in self.older))


@dataclass(frozen=True)
class DeliveredSketches:
    """Sketches of the deliveries of a date, of all their rows. `older`: in ascending precedence."""

    newest: Sketch
    older: tuple[Sketch, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all deliveries."""
        return self.newest.rows + sum(sketch.rows for sketch in self.older)


def open_inputs(
    encoder: RowEncoder,
    task: AdoptTask,
    reader: KeyReader,
    key_cache_bytes: int,
    rows: int,
    parts: PartTasks | None,
    *,
    exact: bool,
) -> ComparisonInputs:
    """Return the inputs. If no stored sketch of the base can be used, this reads its rows, unless `exact`.

    `key_cache_bytes`: how many bytes of key codes may stay in memory between the two passes. `rows`: about how many
    rows the newest delivery has, by which the number of cells is chosen. `parts`: reads the files in Spark tasks; None
    to read them in this process.
    """

    def open_source(files: Sequence[tuple[str, int]], ids: Sequence[int | None], cache_bytes: int = 0) -> KeySource:
        # `ids`: for each file the update_id of all its rows, None if they have several.
        uris, sizes = [uri for uri, _ in files], [size for _, size in files]
        if parts:
            return SplitKeySource(reader, encoder, uris, ids, sizes, parts)
        return KeySource(reader, encoder, uris, ids, task.threads, cache_bytes)

    def open_delivered(delivered: DeliveredDate) -> KeySource:
        files = [(file.uri, file.size) for file in delivered.files]
        ids = [delivered.delivery.snapshot_id] * len(files)
        return open_source(files, ids, key_cache_bytes // len(task.deliveries))

    parent = task.parent
    bits = bits_for(rows, parent.differing_rows if parent else 0, encoder.word_count, len(task.older))
    parent_files = [(parent.uri(file), file.size) for file in parent.files] if parent else []
    parent_source = open_source(parent_files, parent.constant_ids) if parent else None
    base, base_was_stored = (None, False) if exact else _base_sketch(parent, encoder, parent_source, bits)
    base_id = parent.entry.max_update_id if parent else None
    return ComparisonInputs(
        encoder=encoder,
        bits=bits,
        newest=open_delivered(task.newest),
        older=tuple(
            (number, delivered.delivery.snapshot_id, open_delivered(delivered))
            for number, delivered in enumerate(task.older, start=PARENT_SOURCE + 1)
        ),
        parent=parent_source,
        parent_rows=parent.entry.rows if parent else 0,
        base=base,
        base_id=base_id,
        newest_id=task.newest.delivery.snapshot_id,
        survivor_files=tuple(
            n for n, file in enumerate(parent.files if parent else ()) if file.min_update_id != base_id
        ),
        base_was_stored=base_was_stored,
        parts=parts,
    )


def _base_sketch(
    parent: ParentDate | None, encoder: RowEncoder, source: KeySource | None, bits: int
) -> tuple[Sketch | None, bool]:
    """Return the base's sketch (None without a parent), and whether it was stored."""
    if parent is None or source is None:
        return None, False
    base_id = parent.entry.max_update_id
    found = parent.stored_sketch(encoder)
    least, most = _base_row_bounds(parent.files, base_id)
    if found and found.update_id == base_id and least <= found.sketch.rows <= most:
        return found.sketch, True
    base_files = [number for number, file in enumerate(parent.files) if file.max_update_id == base_id]
    return source.sketch(bits, file_numbers=base_files, only_id=base_id), False


def _base_row_bounds(files: tuple[DataFile, ...], base_id: int) -> tuple[int, int]:
    """Return how many rows the base has at least and at most; the same number if no file has several update_ids."""
    whole = sum(file.rows for file in files if file.min_update_id == base_id)
    mixed = sum(file.rows for file in files if file.min_update_id < base_id == file.max_update_id)
    return whole, whole + mixed
