"""Opens the inputs of one date's comparison, and reads or computes the fingerprints of the parent's base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import Column
from dedup_spark.comparison.hashed_files import RowHashers
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.memory_budget import MemoryBudget
from dedup_spark.comparison.split_source import SplitKeySource
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.fingerprints.buckets import MAX_COARSER_BITS, MIN_BITS, BucketFingerprints, bits_for
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import WORD_BYTES
from dedup_spark.parent import PARENT_SOURCE, ParentDate
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.delivered_date import DeliveredDate

# Keys are read twice: to sum up fingerprints, and to compare buckets that differ. Keys are cached between the two
# passes only if at least this share of them fits into memory. Less would save too little of the second pass.
_MIN_CACHED_SHARE = 0.25


@dataclass(frozen=True)
class ComparisonInputs:
    """The deliveries and the parent of one date, opened for comparison.

    `base_id`: the highest update_id of the parent's rows. The rows that have it are the parent's base, all others are
    survivors. `survivor_rows`: their number. `columns`: the key columns. `newest_id`: the snapshot id of the newest
    delivery. `older`: the source number (from 1; the parent is 0) and the reader of each older delivery, in ascending
    precedence. Fingerprints have `2**bits` buckets; those of the base may have another number if they were
    stored (`base_was_stored`). `parts`: runs parts of the comparison as Spark tasks; None to do all in this process.
    Without a parent, `parent`, `base_fingerprints` and `base_id` are None.
    """

    columns: tuple[Column, ...]
    hashers: RowHashers
    bits: int
    newest: KeySource
    older: tuple[tuple[int, KeySource], ...]
    parent: KeySource | None
    base_fingerprints: BucketFingerprints | None
    base_id: int | None
    newest_id: int
    survivor_rows: int
    base_was_stored: bool
    parts: PartTasks | None

    def fingerprints(self) -> DeliveredFingerprints:
        """Read the deliveries' files and return their fingerprints. Raises what the reader of a damaged file raises."""
        newest = self.newest.fingerprints(self.bits)
        return DeliveredFingerprints(newest, tuple(delivery.fingerprints(self.bits) for _, delivery in self.older))


@dataclass(frozen=True)
class DeliveredFingerprints:
    """Fingerprints of the deliveries of a date, of all their rows. `older`: in ascending precedence."""

    newest: BucketFingerprints
    older: tuple[BucketFingerprints, ...]


def open_inputs(
    hashers: RowHashers, task: AdoptTask, reader: KeyReader, key_cache_bytes: int, rows: int, parts: PartTasks | None
) -> ComparisonInputs:
    """Return the inputs. If no stored fingerprints of the base can be used, this reads its rows.

    `key_cache_bytes`: how many bytes of decoded keys may stay in memory between the two passes. `rows`: about how many
    rows the newest delivery has, by which the number of buckets is chosen. `parts`: reads the files in Spark tasks;
    None to read them in this process.
    """
    columns = hashers.keys.columns
    budget = MemoryBudget(key_cache_bytes if key_cache_bytes >= _MIN_CACHED_SHARE * _key_bytes(columns, rows) else 0)

    def open_source(
        files: Sequence[tuple[str, int]], ids: Sequence[int | None], *, caches_values: bool = False
    ) -> KeySource:
        # `ids`: for each file the update_id of all its rows, None if they have several.
        uris, sizes = [uri for uri, _ in files], [size for _, size in files]
        if parts:
            return SplitKeySource(reader, hashers, uris, ids, sizes, parts)
        return KeySource(reader, hashers, uris, ids, budget, task.threads, caches_values=caches_values)

    def open_delivered(delivered: DeliveredDate) -> KeySource:
        files = [(file.uri, file.size) for file in delivered.files]
        # Rows of older deliveries may be written as survivors, so their values are cached too. Values of the newest
        # delivery are not needed, because its files are copied.
        may_survive = delivered is not task.newest
        return open_source(files, [delivered.delivery.snapshot_id] * len(files), caches_values=may_survive)

    parent = task.parent
    # Buckets are smaller the more keys are expected to differ: then fewer equal keys are compared beside them. Rows of
    # which only values differ need no comparison of keys. So the share of differing rows is used only if the publish
    # that made the parent had new keys.
    has_new_keys = parent is not None and parent.entry.new_keys > 0
    bits = bits_for(rows, parent.differing_share if parent and has_new_keys else None, len(task.older))
    parent_files = [(parent.uri(file), file.size) for file in parent.files] if parent else []
    parent_source = open_source(parent_files, parent.constant_ids) if parent else None
    base, base_was_stored = _base_fingerprints(task, hashers, parent_source, bits)
    return ComparisonInputs(
        columns=columns,
        hashers=hashers,
        bits=bits,
        newest=open_delivered(task.newest),
        older=tuple(enumerate(map(open_delivered, task.older), start=PARENT_SOURCE + 1)),
        parent=parent_source,
        base_fingerprints=base,
        base_id=parent.entry.max_update_id if parent else None,
        newest_id=task.newest.delivery.snapshot_id,
        survivor_rows=parent.entry.rows - base.rows if parent and base else 0,
        base_was_stored=base_was_stored,
        parts=parts,
    )


def _key_bytes(columns: tuple[Column, ...], rows: int) -> int:
    """About how many bytes the decoded keys of `rows` rows take, with one hash of each. Texts may take more."""
    return rows * (len(columns) + 1) * WORD_BYTES


def _base_fingerprints(
    task: AdoptTask, hashers: RowHashers, source: KeySource | None, bits: int
) -> tuple[BucketFingerprints | None, bool]:
    """Return the base's fingerprints (None without a parent), and whether they were stored."""
    parent = task.parent
    if parent is None or source is None:
        return None, False
    base_id, stored_base = parent.entry.max_update_id, _stored_base_fingerprints(parent, hashers.keys)
    # Stored fingerprints lack value sums if their publish did not compare values.
    has_values = stored_base is not None and stored_base.value_sums is not None
    if (
        stored_base
        and stored_base.bits >= max(bits - MAX_COARSER_BITS, MIN_BITS)
        and (has_values or not hashers.values)
    ):
        return stored_base, True
    base_files = [number for number, file in enumerate(parent.files) if file.max_update_id == base_id]
    return source.fingerprints(bits, file_numbers=base_files, only_id=base_id), False


def _stored_base_fingerprints(parent: ParentDate, hasher: KeyHasher) -> BucketFingerprints | None:
    """Return the stored fingerprints; None if there are none, or if they cannot be those of the base."""
    found = parent.stored_fingerprints(hasher)
    if found is None or found.update_id != parent.entry.max_update_id:
        return None
    least, most = _base_row_bounds(parent.files, found.update_id)
    return found.buckets if least <= found.buckets.rows <= most else None


def _base_row_bounds(files: tuple[DataFile, ...], base_id: int) -> tuple[int, int]:
    """Return how many rows the base has at least and at most; the same number if no file has several update_ids."""
    whole = sum(file.rows for file in files if file.min_update_id == base_id)
    mixed = sum(file.rows for file in files if file.min_update_id < base_id == file.max_update_id)
    return whole, whole + mixed
