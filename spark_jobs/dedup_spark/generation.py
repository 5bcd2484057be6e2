"""Composes the new generation from the dates that plans wrote and the files that it keeps of the parent.

The data folder of each generation has all its files, so folders of older generations can be deleted. A generation may
also take over the rows of an existing table (bootstrap) or of a copy of the live one (rebuild), exported to files. They
are handled like a delivery, but keep their update ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

from dedup_clone.contract.attempt import Attempt, Duplicates
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import DataFile, DateEntry, DateOutcome, RefusedDelivery, newest_snapshot
from dedup_clone.contract.records import digest
from dedup_clone.contract.table import Absent, TableContract, UpdateIdMode
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.data_files import write_file
from dedup_spark.execution.fan_out import map_objects
from dedup_spark.execution.session import SessionSource
from dedup_spark.parent import Parent, files_by_date
from dedup_spark.plan_selection import DatePlan
from dedup_spark.plans.date_task import WrittenDate, WrittenDates
from dedup_spark.sketch import stored

# So many dates of duplicate keys are named in a refusal.
_MAX_NAMED_DATES = 5


@dataclass(frozen=True)
class NewGeneration:
    """Dates and files of the new generation. `copied`: the dates whose files are all those of the parent, and no other.

    `same_sketches`: the dates whose stored sketches are copied from the parent, too.
    """

    dates: tuple[DateEntry, ...]
    files: tuple[DataFile, ...]
    copied: frozenset[date]
    same_sketches: frozenset[date]

    def lost_dates(self, parent: Parent) -> dict[date, int]:
        """The parent's dates within the retention that the generation lacks, each with its rows."""
        dates = {entry.date for entry in self.dates}
        return {day: entry.rows for day, entry in parent.dates.items() if entry.rows and day not in dates}


def assemble_generation(
    attempt: Attempt,
    plans: Mapping[date, DatePlan],
    delivered: Mapping[date, Sequence[int]],
    written_dates: WrittenDates,
    parent: Parent,
) -> NewGeneration:
    """Return the new generation that the plans have made. `delivered`: by date, the snapshot ids that are applied.

    Raises ContractViolation if the parent's files have fewer or more rows than its manifest counts.
    """
    mode, deletes = attempt.update_id_mode, attempt.table.absent_keys is Absent.DELETE
    entries: list[DateEntry] = []
    files: list[DataFile] = []
    copied: set[date] = set()
    same_sketches: set[date] = set()
    for day, plan in plans.items():
        parent_entry = parent.dates.get(day)
        if plan.outcome in (DateOutcome.COPIED_FORWARD, DateOutcome.UNCHANGED):
            files_of_date = parent.files_of(day)
            entry = _copied_entry(parent.dates[day], plan)
            same_sketches |= {day} if entry.key_fingerprint else set()
        else:
            written = written_dates[day]
            files_of_date = written.files
            entry = _written_entry(written, plan)
            if deletes and parent_entry and delivered.get(day):
                entry = replace(entry, deleted=parent_entry.rows + entry.new_keys - entry.rows)
        entry = replace(entry, newest_snapshot=newest_snapshot(mode, delivered.get(day, ()), parent_entry))
        _require_parent_complete(entry, parent_entry)
        copied |= {day} if files_of_date == parent.files_of(day) else set()
        entries.append(replace(entry, files_digest=files_digest(files_of_date)))
        files += files_of_date
    return NewGeneration(tuple(entries), tuple(files), frozenset(copied), frozenset(same_sketches))


def _copied_entry(parent_entry: DateEntry, plan: DatePlan) -> DateEntry:
    """The entry of a date whose files are copied from the parent.

    An unchanged date repeats the parent's plan, unless that is COPIED_FORWARD: with this outcome the check for missing
    dates would report the date, although the replay did not read which dates its deliveries have.
    """
    repeats_plan = plan.outcome == DateOutcome.UNCHANGED and parent_entry.plan != DateOutcome.COPIED_FORWARD
    outcome = parent_entry.plan if repeats_plan else plan.outcome
    return replace(parent_entry, new_keys=0, changed=0, deleted=0, ties=0, plan=outcome, plan_reason=plan.reason)


def _written_entry(written: WrittenDate, plan: DatePlan) -> DateEntry:
    """The entry of a date that a plan wrote. Its `files_digest` is empty, to be set when its files are known."""
    ids = [update_id for file in written.files for update_id in (file.min_update_id, file.max_update_id)]
    return DateEntry(
        date=written.day,
        rows=sum(file.rows for file in written.files),
        new_keys=written.new_keys,
        changed=written.changed,
        survivors=written.survivors,
        ties=sum(written.surplus_rows.values()),
        plan=plan.outcome,
        plan_reason=plan.reason,
        min_update_id=min(ids),
        max_update_id=max(ids),
        adopted_delivery=written.adopted_delivery,
        key_fingerprint=written.key_fingerprint,
        files_digest="",
        cluster_overlap=written.cluster_overlap,
    )


def _require_parent_complete(entry: DateEntry, parent_entry: DateEntry | None) -> None:
    expected = parent_entry.rows if parent_entry else 0
    if entry.rows - entry.new_keys + entry.deleted != expected or entry.deleted < 0:
        raise ContractViolation(
            f"Date [{entry.date}] has [{entry.rows - entry.new_keys}] keys of the parent after the dedup, expected "
            f"[{expected}] as the parent's manifest says: its data files were changed. Restore them, then retry."
        )


def files_digest(files: Iterable[DataFile]) -> str:
    """Return a digest of the files' paths, row counts and sizes, which does not depend on the order of `files`."""
    lines = sorted(f"{file.path} {file.rows} {file.size}" for file in files)
    return digest("\n".join(lines))


def copy_forward(attempt: Attempt, generation: NewGeneration, parent: Parent, session: SessionSource) -> NewGeneration:
    """Copy the parent's files that the generation keeps, and the stored sketches that remain valid.

    The files keep their paths below the data folder, so the `files_digest` of a date does not change. If columns were
    added or changed after the parent was made, the files are rewritten: a load job takes the schema of one file for all
    its files. Return the generation with the files that it then has.
    """
    kept = set(generation.files)
    files = [file for file in parent.files if file in kept]
    if parent.has_other_columns:
        complete = partial(_complete, attempt.table, parent.data_uri, attempt.data_uri)
        sizes = [file.size for file in files]
        written = map_objects(session, complete, files, sizes, "add columns to copied files")
        completed = dict(zip(files, written, strict=True))
        all_files = tuple(completed.get(file, file) for file in generation.files)
        by_date = files_by_date(all_files)
        dates = tuple(replace(entry, files_digest=files_digest(by_date[entry.date])) for entry in generation.dates)
        return replace(generation, dates=dates, files=all_files)
    paths = [file.path for file in files]
    if generation.same_sketches:
        stored_names = storage.list_objects(storage.join(parent.data_uri, stored.FOLDER))
        sketch_paths = [stored.path_of(day) for day in sorted(generation.same_sketches)]
        paths += [path for path in sketch_paths if path.removeprefix(f"{stored.FOLDER}/") in stored_names]
    copy = partial(_copy, parent.data_uri, attempt.data_uri)
    map_objects(session, copy, paths, [0] * len(paths), "copy files of the parent")
    return generation


def _copy(source_folder_uri: str, target_folder_uri: str, path: str) -> None:
    storage.copy(storage.join(source_folder_uri, path), storage.join(target_folder_uri, path))


def _complete(table: TableContract, parent_data_uri: str, data_uri: str, file: DataFile) -> DataFile:
    source = RowSource.all_rows(storage.join(parent_data_uri, file.path), file.rows)
    written = write_file(table, data_uri, file.date, "completed", read_rows(KeyReader(table), source))
    assert written, f"[{source.uri}] has no rows"
    return written


def refuse_duplicates(attempt: Attempt, delivery: Delivery, generation: NewGeneration) -> RefusedDelivery | None:
    """Return the refusal of a table that has duplicate keys; None if the table can be taken over.

    The attempt's `takes_over` says what to do about duplicate keys. No key is named, because the reason stays in logs
    even after the key is erased.
    """
    duplicated = sorted((e for e in generation.dates if e.ties), key=lambda e: (-e.ties, e.date))
    if not duplicated or attempt.takes_over is not Duplicates.REFUSE:
        return None
    named = ", ".join(f"{e.date}: {e.ties}" for e in duplicated[:_MAX_NAMED_DATES])
    more = f", and {len(duplicated) - _MAX_NAMED_DATES} more dates" if len(duplicated) > _MAX_NAMED_DATES else ""
    reason = (
        f"The existing table cannot become feed [{attempt.feed}]: it has [{sum(e.ties for e in duplicated)}] surplus "
        f"rows of keys ({', '.join(attempt.table.keys)}) that occur more than once, on [{len(duplicated)}] dates "
        f"({named}{more}). "
        f"Nothing was changed. Next: list them with the query in docs/feeds.md and delete the surplus rows, or "
        f"trigger the DAG again with duplicates [{Duplicates.KEEP_LATEST}]: of each key it keeps the row with the "
        f"highest {attempt.table.snapshot_id_column}; if several rows have it, the one with the greatest values."
    )
    return RefusedDelivery(delivery, reason)


def as_taken_over(attempt: Attempt, generation: NewGeneration) -> NewGeneration:
    """Return the generation with what its rows' own update ids mean for the dates.

    A date of a rebuild keeps its newest snapshot, even if all its rows were erased. In mode last_seen, a date whose
    rows have several update ids loses its sketch, which covers all its rows. In mode last_changed this is what the next
    publish needs: the sketch of the date's last delivery, and the table counts as that delivery. In mode last_seen the
    next publish needs the sketch of only those rows that have the date's highest update id.
    """
    newest = attempt.newest_snapshots
    dates = tuple(replace(e, newest_snapshot=newest.get(e.date)) for e in generation.dates)
    if attempt.table.absent_keys is Absent.DELETE:
        emptied = newest.keys() - {entry.date for entry in dates}
        dates += tuple(_emptied(day, newest[day]) for day in sorted(emptied) if day >= attempt.retention_day)
    if attempt.update_id_mode is not UpdateIdMode.LAST_CHANGED:
        dates = tuple(map(_without_mixed_fingerprint, dates))
    return replace(generation, dates=dates)


def _emptied(day: date, newest: int) -> DateEntry:
    """The entry of a date whose rows were all erased. `newest`: its newest snapshot."""
    return DateEntry(
        date=day,
        rows=0,
        new_keys=0,
        changed=None,
        survivors=0,
        ties=0,
        plan=DateOutcome.ERASED,
        plan_reason="all its rows were erased",
        min_update_id=newest,
        max_update_id=newest,
        adopted_delivery=None,
        key_fingerprint=None,
        files_digest=files_digest(()),
        newest_snapshot=newest,
    )


def _without_mixed_fingerprint(entry: DateEntry) -> DateEntry:
    has_one_id = entry.min_update_id == entry.max_update_id
    return entry if has_one_id else replace(entry, key_fingerprint=None)
