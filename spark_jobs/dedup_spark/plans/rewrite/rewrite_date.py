"""Runs plan rewrite for one date, from its task to its outcome, inside a Spark task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import DataFile
from dedup_spark import storage
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.comparison.validating_reader import ValidatingReader
from dedup_spark.data_files import SortedFilesWriter, are_fragmented
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.parent import PARENT_SOURCE, ParentDate
from dedup_spark.plans.adopt.survivor_files import added_sources, survivor_sources
from dedup_spark.plans.delivered_date import DeliveredDate
from dedup_spark.plans.difference.compared_date import ComparedDate, MergePolicy
from dedup_spark.plans.difference.comparison_inputs import InputOpener
from dedup_spark.plans.difference.diff_result import DiffResult
from dedup_spark.plans.difference.differences import find_differences
from dedup_spark.plans.written_date import DeclinedDate, Outcome, WrittenDate
from dedup_spark.sketch import stored
from dedup_spark.sketch.sketch import Sketch


@dataclass(frozen=True)
class RewriteTask:
    """One date to rewrite. `compared`: its only delivery and the parent; None if no delivery has the date.

    `parent` is None if the parent lacks the date. `keeps_files`: the parent's files of which no row is removed are
    copied, and only rows that these files lack are written.
    """

    day: date
    compared: ComparedDate | None
    parent: ParentDate | None
    keeps_files: bool = False

    @property
    def deliveries(self) -> tuple[DeliveredDate, ...]:
        return self.compared.deliveries if self.compared else ()

    @property
    def bytes(self) -> int:
        """The stored bytes of delivery and parent."""
        return sum(dated.bytes for dated in (*self.deliveries, self.parent) if dated)


@dataclass(frozen=True)
class RewriteDate:
    """Rewrites one date. `file_bytes`: the target size of a file."""

    attempt: Attempt
    seed: Seed
    file_bytes: int

    def __call__(self, task: RewriteTask, reader: ValidatingReader) -> Outcome | None:
        """Write the date's files and sketch below the data folder, or decline the date.

        No files are written if those of the parent are kept (see `_is_unchanged`). No sketch is written if that of the
        parent remains valid, or if the next publish has to compute it.

        Return None if the delivery has no row. `reader` validates the files that have not been read yet. Raises
        UnsuitableFile or pyarrow's errors if a file cannot be used.
        """
        if task.compared is None:
            return self._rewrite_parent(task, reader)
        inputs, sketches = InputOpener(task.compared, reader, self.seed, self.attempt.exact).open()
        newest = task.compared.newest.with_validations(reader.validations)
        if not newest.rows:
            return None
        task = replace(task, compared=replace(task.compared, newest=newest))
        try:
            diff = find_differences(inputs, sketches, exact=self.attempt.exact)
        except TooManyDuplicates as error:
            return DeclinedDate(task.day, str(error))
        surplus_rows = diff.surplus_rows(inputs.newest_source)
        return self._write_date(task, newest, diff, sketches.newest, surplus_rows, reader)

    def _write_date(
        self,
        task: RewriteTask,
        newest: DeliveredDate,
        diff: DiffResult,
        sketch: Sketch,
        surplus_rows: int,
        reader: KeyReader,
    ) -> WrittenDate:
        """Write what the delivery `newest` changes. `sketch`: of its rows, each key once."""
        is_unchanged = self._is_unchanged(task, diff)
        copied = [] if is_unchanged else self._copy_files(task, diff)
        new_files, overlap = ((), None) if is_unchanged else self._write(task, diff, reader, copied)
        files = None if is_unchanged else (*copied, *new_files)
        next_sketch = _sketch_for_next(task, newest, diff, sketch, files or ())
        if next_sketch.to_write:
            stored.write(storage.join(self.attempt.data_uri, stored.path_of(task.day)), next_sketch.to_write)
        rows_of_date = task.parent.entry.rows if is_unchanged and task.parent else sum(f.rows for f in files or ())
        return WrittenDate(
            day=task.day,
            files=files,
            new_keys=diff.new_keys,
            changed=diff.changed,
            survivors=rows_of_date - (newest.rows - surplus_rows),
            surplus_rows={newest.delivery.snapshot_id: surplus_rows},
            how=_how(task, diff, is_unchanged=is_unchanged),
            key_fingerprint=next_sketch.digest,
            wrote_sketch=next_sketch.to_write is not None,
            examples=diff.examples(reader.table, task.day),
            cluster_overlap=overlap,
        )

    def _is_unchanged(self, task: RewriteTask, diff: DiffResult) -> bool:
        """Whether the parent's files are kept: no key or value changed, and the files are not far more than needed."""
        if task.parent is None or not _changes_nothing(task, diff):
            return False
        return not are_fragmented(task.parent.files, self.file_bytes)

    def _rewrite_parent(self, task: RewriteTask, reader: KeyReader) -> WrittenDate:
        """Write the parent's rows of a date that no delivery has, sorted, into new files."""
        assert task.parent
        entry = task.parent.entry
        files, overlap = self._write(task, DiffResult(), reader)
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

    def _copy_files(self, task: RewriteTask, diff: DiffResult) -> list[DataFile]:
        """Copy the parent's files of which no row is removed, if the task keeps files and the columns are the same."""
        if not task.keeps_files or task.parent is None or task.parent.has_other_columns:
            return []
        copied = [file for number, file in enumerate(task.parent.files) if not len(diff.removed_in(number))]
        for file in copied:
            storage.copy(task.parent.uri(file), storage.join(self.attempt.data_uri, file.path))
        return copied

    def _write(
        self, task: RewriteTask, diff: DiffResult, reader: KeyReader, copied: Sequence[DataFile] = ()
    ) -> tuple[tuple[DataFile, ...], float | None]:
        """Write the rows of the date, except those in `copied` files. Return the new files and `cluster_overlap`.

        The overlap is None if files were copied, because these were not read. Delivered rows are written first:
        usually they are few, and one sorted run has all of them.
        """
        files = SortedFilesWriter(self.attempt.table, self.attempt.data_uri, task.day, "rewritten", self.file_bytes)
        compared, sources = task.compared, []
        if compared and compared.policy is MergePolicy.IN_ORDER:
            snapshot_id = compared.newest.delivery.snapshot_id
            for number, landed in enumerate(compared.newest.files):
                surplus = diff.surplus_in(PARENT_SOURCE + 1, number)
                sources.append(RowSource.all_rows(landed.uri, landed.rows, snapshot_id, excluded=surplus))
            sources += survivor_sources(compared, diff, self.attempt.table)
        else:
            sources += added_sources(compared, diff, self.attempt.table) if compared else []
            for number, file in enumerate(task.parent.files if task.parent else ()):
                if task.parent and file not in copied:
                    uri, removed = task.parent.uri(file), diff.removed_in(number)
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
    task: RewriteTask, newest: DeliveredDate, diff: DiffResult, sketch: Sketch, files: tuple[DataFile, ...]
) -> _NextSketch:
    """Return the sketch of the rewritten date; `StoredSketch` says of which rows.

    `sketch`: of the delivery's rows. `files`: the date's new and copied files; empty if the parent's files are kept.
    """
    parent_entry = task.parent.entry if task.parent else None
    if parent_entry and _policy(task) is MergePolicy.LATE:  # rows with the highest update_id stay the same
        return _NextSketch(parent_entry.key_fingerprint, None)
    digest = sketch.digest()
    is_same = parent_entry is not None and parent_entry.key_fingerprint == digest and diff.differing == 0
    if is_same and _policy(task) is MergePolicy.BY_VALUE:
        return _NextSketch(digest, None)
    # Without a parent, rows may come from an existing table, with update_ids of their own.
    newest_id = newest.delivery.snapshot_id if parent_entry else max(file.max_update_id for file in files)
    return _NextSketch(digest, stored.StoredSketch(newest_id, sketch))


def _policy(task: RewriteTask) -> MergePolicy | None:
    return task.compared.policy if task.compared else None


def _changes_nothing(task: RewriteTask, diff: DiffResult) -> bool:
    """Whether the delivery adds no key and replaces no row, in mode last_changed."""
    return _policy(task) is MergePolicy.BY_VALUE and not diff.new_keys and not diff.removed


def _how(task: RewriteTask, diff: DiffResult, *, is_unchanged: bool) -> str:
    """What was compared, for the manifest."""
    if task.parent is None:
        return "the parent has no row of this date"
    if diff.differing is None:
        how = "all rows compared"
    elif diff.differing:
        how = f"[{diff.differing}] differing rows {'decoded' if diff.is_decoded else 'compared'}"
    else:
        how = "same keys and values as in the last snapshot: the parent's rows were not compared"
    if is_unchanged:
        return f"{how}; no row changed, so the parent's files are kept"
    # In mode last_changed, a date without changes is written only if it is fragmented (see `_is_unchanged`).
    is_fragmented = _changes_nothing(task, diff)
    return f"{how}; [{len(task.parent.files)}] files become few" if is_fragmented else how
