"""Runs plan rewrite for one date, from its task to its outcome, inside a Spark task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import DataFile, KeyExample
from dedup_spark import storage
from dedup_spark.arrays import EMPTY_I64
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.row_encoders import encoders, wide_encoder
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.comparison.validating_reader import ValidatingReader
from dedup_spark.data_files import SortedFilesWriter, are_fragmented
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.plans.delivered_date import DeliveredDate, expected_rows
from dedup_spark.plans.rewrite.date_merge import DateMerge, MergePolicy, RewriteTask, merge_date, stored_sketch
from dedup_spark.plans.written_date import DeclinedDate, Outcome, WrittenDate
from dedup_spark.sketch import stored
from dedup_spark.sketch.row_words import OutOfSpan
from dedup_spark.sketch.sketch import Sketch, bits_for


@dataclass(frozen=True)
class RewriteDate:
    """Rewrites one date. `file_bytes`: the target size of a file.

    `key_cache_bytes`: how many bytes of key codes may stay in memory between two passes over the files.
    """

    attempt: Attempt
    seed: Seed
    file_bytes: int
    key_cache_bytes: int

    def __call__(self, task: RewriteTask, reader: ValidatingReader) -> Outcome | None:
        """Write the date's files and sketch below the data folder, or decline the date.

        No files are written if those of the parent are kept (see `_is_unchanged`). No sketch is written if that of the
        parent remains valid, or if the next publish has to compute it.

        Return None if the delivery has no row. `reader` validates the files that have not been read yet. Raises
        UnsuitableFile or pyarrow's errors if a file cannot be used.
        """
        if task.delivered is None:
            return self._rewrite_parent(task, reader)
        return self._merge(task, task.delivered, reader)

    def _merge(self, task: RewriteTask, delivered: DeliveredDate, reader: KeyReader) -> Outcome | None:
        """Compare the delivery with the parent, and write or decline the date; None if the delivery has no row."""
        newest, sketch, former_sketch = self._sketched(task, delivered, reader)
        parent = None
        if task.parent:
            uris = [task.parent.uri(file) for file in task.parent.files]
            parent = KeySource(reader, newest.encoder, uris, task.parent.constant_ids)
        try:
            merge = merge_date(self.attempt.table, task, newest, parent, sketch, former_sketch)
        except TooManyDuplicates as error:
            return DeclinedDate(task.day, str(error))
        if not merge.sketch.rows:
            return None
        is_unchanged = self._is_unchanged(task, merge)
        copied = [] if is_unchanged else self._copy_files(task, merge)
        new_files, overlap = ((), None) if is_unchanged else self._write(task, merge, reader, copied)
        files = None if is_unchanged else (*copied, *new_files)
        next_sketch = _sketch_for_next(task, delivered, merge, files or ())
        if next_sketch.to_write:
            stored.write(storage.join(self.attempt.data_uri, stored.path_of(task.day)), next_sketch.to_write)
        rows_of_date = task.parent.entry.rows if is_unchanged and task.parent else sum(f.rows for f in files or ())
        return WrittenDate(
            day=task.day,
            files=files,
            new_keys=merge.new_keys,
            changed=merge.changed,
            survivors=rows_of_date - merge.sketch.rows,
            surplus_rows={delivered.delivery.snapshot_id: merge.surplus_rows},
            how=_how(task, merge, is_unchanged=is_unchanged),
            key_fingerprint=next_sketch.digest,
            wrote_sketch=next_sketch.to_write is not None,
            examples=tuple(KeyExample(task.day, kind, key) for kind, keys in merge.examples.items() for key in keys),
            cluster_overlap=overlap,
        )

    def _sketched(
        self, task: RewriteTask, delivered: DeliveredDate, reader: KeyReader
    ) -> tuple[KeySource, Sketch, Sketch | None]:
        """Read the delivery. Return its reader, the sketch of its rows, and the parent's sketch to compare it with."""
        former = None if self.attempt.exact else stored_sketch(task, wide_encoder(reader, self.seed))
        uris = [file.uri for file in delivered.files]
        ids = [None if task.has_own_ids else delivered.delivery.snapshot_id] * len(uris)
        rows, differing_rows = expected_rows(delivered, task.parent), task.parent.differing_rows if task.parent else 0
        parent_uris = [task.parent.uri(file) for file in task.parent.files] if task.parent else []
        for encoder in encoders(reader, self.seed, former, [*uris, *parent_uris]):
            newest = KeySource(reader, encoder, uris, ids, cache_bytes=self.key_cache_bytes)
            try:
                sketch = newest.sketch(bits_for(rows, differing_rows, encoder.word_count))
            except OutOfSpan:
                continue
            return newest, sketch, former if former and former.encoder == encoder else None
        raise AssertionError("no encoder took all rows")

    def _is_unchanged(self, task: RewriteTask, merge: DateMerge) -> bool:
        """Whether the parent's files are kept: no key or value changed, and the files are not far more than needed."""
        if task.parent is None or task.policy is not MergePolicy.BY_VALUE or not merge.changes_nothing:
            return False
        return not are_fragmented(task.parent.files, self.file_bytes)

    def _rewrite_parent(self, task: RewriteTask, reader: KeyReader) -> WrittenDate:
        """Write the parent's rows of a date that no delivery has, sorted, into new files."""
        assert task.parent
        entry = task.parent.entry
        files, overlap = self._write(task, None, reader)
        return WrittenDate(
            day=task.day,
            files=files,
            new_keys=0,
            changed=0,
            survivors=entry.survivors,
            surplus_rows={},
            how="rows sorted into new files",
            key_fingerprint=entry.key_fingerprint,
            examples=(),
            cluster_overlap=overlap,
        )

    def _copy_files(self, task: RewriteTask, merge: DateMerge) -> list[DataFile]:
        """Copy the parent's files of which no row is removed, if the task keeps files and the columns are the same."""
        if not task.keeps_files or task.parent is None or task.parent.has_other_columns:
            return []
        copied = [file for number, file in enumerate(task.parent.files) if number not in merge.removed]
        for file in copied:
            storage.copy(task.parent.uri(file), storage.join(self.attempt.data_uri, file.path))
        return copied

    def _write(
        self, task: RewriteTask, merge: DateMerge | None, reader: KeyReader, copied: Sequence[DataFile] = ()
    ) -> tuple[tuple[DataFile, ...], float | None]:
        """Write the merged rows, except those in `copied` files. Return the new files, and their `cluster_overlap`.

        `merge`: None to write all rows of the parent. The overlap is None if files were copied, because these were not
        read. Delivered rows are written first: usually they are few, and one sorted run has all of them.
        """
        files = SortedFilesWriter(self.attempt.table, self.attempt.data_uri, task.day, "rewritten", self.file_bytes)
        sources, copied_files = [], set(copied)
        if merge and task.delivered:
            snapshot_id = task.delivered.delivery.snapshot_id
            for number, landed in enumerate(task.delivered.files):
                if merge.inserted is None:
                    surplus = merge.surplus.get(number, EMPTY_I64)
                    sources.append(RowSource.all_rows(landed.uri, landed.rows, snapshot_id, excluded=surplus))
                elif number in merge.inserted:
                    sources.append(RowSource.selected_rows(landed.uri, landed.rows, merge.inserted[number]))
        if task.parent:
            for number, file in enumerate(task.parent.files):
                if file in copied_files:
                    continue
                removed = merge.removed.get(number, EMPTY_I64) if merge else EMPTY_I64
                uri = task.parent.uri(file)
                sources.append(RowSource.all_rows(uri, file.rows, file.max_update_id, excluded=removed))
        for source in sources:
            for table in read_rows(reader, source):
                files.add(table)
        return files.close(), None if copied else files.cluster_overlap


@dataclass(frozen=True)
class _NextSketch:
    """The sketch that the next publish compares with. `digest`: for the manifest; None if there is no such sketch.

    `to_write`: the sketch with this digest; None if the parent has it already.
    """

    digest: str | None
    to_write: stored.StoredSketch | None


def _sketch_for_next(
    task: RewriteTask, delivered: DeliveredDate, merge: DateMerge, files: tuple[DataFile, ...]
) -> _NextSketch:
    """Return the sketch of the rewritten date; `StoredSketch` says of which rows.

    `files`: the date's new and copied files; empty if the parent's files are kept.
    """
    parent_entry, snapshot_id = task.parent.entry if task.parent else None, delivered.delivery.snapshot_id
    if task.policy is MergePolicy.LATE and parent_entry:
        # The delivery is late. Rows with the highest update_id stay the same if the delivery's own id is lower.
        is_older = snapshot_id < parent_entry.max_update_id
        return _NextSketch(parent_entry.key_fingerprint if is_older else None, None)
    digest = merge.sketch.digest()
    if parent_entry and parent_entry.key_fingerprint == digest and merge.differing == 0:
        return _NextSketch(digest, None)
    # Without a parent, rows may come from an existing table, with update_ids of their own.
    newest_id = snapshot_id if parent_entry else max(file.max_update_id for file in files)
    return _NextSketch(digest, stored.StoredSketch(newest_id, merge.sketch))


def _how(task: RewriteTask, merge: DateMerge, *, is_unchanged: bool) -> str:
    """What was compared, for the manifest."""
    if task.parent is None:
        return "the parent has no row of this date"
    if merge.differing is None:
        how = "all rows compared"
    elif merge.differing:
        how = f"[{merge.differing}] differing rows compared"
    else:
        how = "same keys and values as in the last snapshot: the parent's rows were not compared"
    if is_unchanged:
        return f"{how}; no row changed, so the parent's files are kept"
    # With policy BY_VALUE, a date without changes is written only if it is fragmented (see `_is_unchanged`).
    is_fragmented = merge.changes_nothing and task.policy is MergePolicy.BY_VALUE
    return f"{how}; [{len(task.parent.files)}] files become few" if is_fragmented else how
