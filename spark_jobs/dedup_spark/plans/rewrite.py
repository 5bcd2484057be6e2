"""Plan `rewrite` by streaming: writes the rows of a date again, sorted, into files of a target size, without a shuffle.

It finds by the sketches how the delivery differs from the parent, and then reads the rows once more to write them.
Files of the parent that need no change may be copied instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import DataFile
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.data_files import are_fragmented, write_sorted
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.date_task import DateTask, MergePolicy, WrittenDate
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs
from dedup_spark.plans.difference.diff_result import DiffResult
from dedup_spark.plans.survivor_files import added_sources, survivor_sources
from dedup_spark.sketch import stored


@dataclass(frozen=True)
class Rewriter:
    """Rewrites dates. `file_bytes`: the target size of a file."""

    attempt: Attempt
    file_bytes: int

    def rewrite(self, inputs: ComparisonInputs, diff: DiffResult, reader: KeyReader) -> WrittenDate:
        """Write what the delivery changes, and the sketch, below the data folder.

        No files are written if those of the parent are kept: no key or value changed in mode last_changed, and the
        files are not far more than needed. No sketch is written if that of the parent remains valid, or if the next
        publish has to compute it.
        """
        task, parent, newest = inputs.task, inputs.task.parent, inputs.task.newest
        surplus_rows = diff.surplus_rows(inputs.newest.source)
        changes_nothing = task.policy is MergePolicy.BY_VALUE and not diff.new_keys and not diff.removed
        how, files, overlap = _how(inputs, diff), None, None
        if parent and changes_nothing and not are_fragmented(parent.files, self.file_bytes):
            how, rows = f"{how}; no row changed, so the parent's files are kept", parent.entry.rows
        else:
            how += f"; [{len(parent.files)}] files become few" if parent and changes_nothing else ""
            copied = self._copy_files(task, diff)
            new_files, overlap = self._write(task, diff, reader, copied)
            files = (*copied, *new_files)
            rows = sum(file.rows for file in files)
        sketch = _sketch_for_next(inputs, diff, files or ())
        if sketch.to_write:
            stored.write(storage.join(self.attempt.data_uri, stored.path_of(task.day)), sketch.to_write)
        return WrittenDate(
            day=task.day,
            files=files,
            new_keys=diff.new_keys,
            changed=diff.changed,
            survivors=rows - (newest.rows - surplus_rows),
            surplus_rows={newest.delivery.snapshot_id: surplus_rows},
            how=how,
            key_fingerprint=sketch.digest,
            wrote_sketch=sketch.to_write is not None,
            examples=diff.examples(reader.table, task.day),
            cluster_overlap=overlap,
        )

    def sort_parent(self, task: DateTask, reader: KeyReader) -> WrittenDate:
        """Write the parent's rows of a date that no delivery has, sorted, into new files."""
        assert task.parent
        entry = task.parent.entry
        files, overlap = self._write(task, DiffResult(), reader, [])
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

    def _copy_files(self, task: DateTask, diff: DiffResult) -> list[DataFile]:
        """Copy the parent's files of which no row is removed, if the task keeps files and the columns are the same."""
        if not task.keeps_files or task.parent is None or task.parent.has_other_columns:
            return []
        copied = [file for number, file in enumerate(task.parent.files) if not len(diff.removed_in(number))]
        for file in copied:
            storage.copy(task.parent.uri(file), storage.join(self.attempt.data_uri, file.path))
        return copied

    def _write(
        self, task: DateTask, diff: DiffResult, reader: KeyReader, copied: Sequence[DataFile]
    ) -> tuple[tuple[DataFile, ...], float | None]:
        """Write the rows of the date, except those in `copied` files. Return the new files and `cluster_overlap`.

        The overlap is None if files were copied, because these were not read. Delivered rows are written first:
        usually they are few, and one sorted run has all of them.
        """
        sources = []
        if task.deliveries and task.policy is MergePolicy.IN_ORDER:
            snapshot_id = task.newest.delivery.snapshot_id
            for number, landed in enumerate(task.newest.files):
                surplus = diff.surplus_in(PARENT_SOURCE + 1, number)
                sources.append(RowSource.all_rows(landed.uri, landed.rows, snapshot_id, excluded=surplus))
            sources += survivor_sources(task, diff, self.attempt.table)
        else:
            sources += added_sources(task, diff)
            for number, file in enumerate(task.parent.files if task.parent else ()):
                if task.parent and file not in copied:
                    uri, removed = task.parent.uri(file), diff.removed_in(number)
                    sources.append(RowSource.all_rows(uri, file.rows, file.max_update_id, excluded=removed))
        rows, data_uri = (table for source in sources for table in read_rows(reader, source)), self.attempt.data_uri
        files, overlap = write_sorted(self.attempt.table, data_uri, task.day, "rewritten", rows, self.file_bytes)
        return files, None if copied else overlap


class _NextSketch(NamedTuple):
    """The sketch that the next publish compares with. `digest`: for the manifest; None if there is no such sketch.

    `to_write`: the sketch with this digest; None if the parent has it already.
    """

    digest: str | None
    to_write: stored.StoredSketch | None


def _sketch_for_next(inputs: ComparisonInputs, diff: DiffResult, files: tuple[DataFile, ...]) -> _NextSketch:
    """Return the sketch of the rewritten date; `StoredSketch` says of which rows.

    `files`: the date's new and copied files; empty if the parent's files are kept.
    """
    parent_entry, policy = inputs.task.parent.entry if inputs.task.parent else None, inputs.task.policy
    if parent_entry and policy is MergePolicy.LATE:  # rows with the highest update_id stay the same
        return _NextSketch(parent_entry.key_fingerprint, None)
    sketch = inputs.newest_sketch
    digest = sketch.digest()
    is_same = parent_entry is not None and parent_entry.key_fingerprint == digest and diff.differing == 0
    if is_same and policy is MergePolicy.BY_VALUE:
        return _NextSketch(digest, None)
    # Without a parent, rows may come from an existing table, with update_ids of their own.
    newest_id = inputs.newest.update_id if parent_entry else max(file.max_update_id for file in files)
    return _NextSketch(digest, stored.StoredSketch(newest_id, sketch))


def _how(inputs: ComparisonInputs, diff: DiffResult) -> str:
    """What was compared, for the manifest."""
    if inputs.parent is None:
        return "the parent has no row of this date"
    if diff.differing is None:
        return "all rows compared"
    if diff.differing:
        return f"[{diff.differing}] differing rows {'decoded' if diff.is_decoded else 'compared'}"
    return "same keys and values as in the last snapshot: the parent's rows were not compared"
