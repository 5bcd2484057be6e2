"""Composes the new generation's dates, files and manifest, from the dates that plans wrote and the copied dates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import (
    DataFile,
    DateEntry,
    DateOutcome,
    newest_snapshot,
)
from dedup_clone.contract.records import digest
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.parent import Parent
from dedup_spark.plan_selection import DatePlan
from dedup_spark.plans.written_date import WrittenDate, WrittenDates


@dataclass(frozen=True)
class NewGeneration:
    """Dates and files of the new generation. `copied`: the dates whose files are copied from the parent.

    `same_fingerprints`: the dates whose stored sketches are copied from the parent.
    """

    dates: tuple[DateEntry, ...]
    files: tuple[DataFile, ...]
    copied: frozenset[date]
    same_fingerprints: frozenset[date]

    def with_files(self, written: Mapping[DataFile, DataFile]) -> NewGeneration:
        """The generation with each file that is a key of `written` replaced by its value."""
        files = tuple(written.get(file, file) for file in self.files)
        by_date: dict[date, list[DataFile]] = {entry.date: [] for entry in self.dates}
        for file in files:
            by_date[file.date].append(file)
        dates = tuple(replace(entry, files_digest=files_digest(by_date[entry.date])) for entry in self.dates)
        return replace(self, dates=dates, files=files)


def assemble_generation(
    mode: UpdateIdMode,
    plans: Mapping[date, DatePlan],
    delivered: Mapping[date, Sequence[int]],
    written_dates: WrittenDates,
    parent: Parent,
) -> NewGeneration:
    """Return the new generation that the plans have made. `delivered`: by date, the snapshot ids that are applied.

    Raises ContractViolation if the parent's files have fewer or more rows than its manifest counts.
    """
    entries: list[DateEntry] = []
    files: list[DataFile] = []
    copied: set[date] = set()
    same_fingerprints: set[date] = set()
    for day, plan in plans.items():
        parent_entry = parent.dates.get(day)
        if plan.outcome in (DateOutcome.COPIED_FORWARD, DateOutcome.UNCHANGED):
            written, files_of_date = None, None
            entry = _copied_entry(parent.dates[day], plan)
        else:
            written = written_dates[day]
            files_of_date = written.files
            entry = _written_entry(written, plan, parent_entry)
            if parent_entry and day not in delivered:  # the check for missing dates reports dates with this outcome
                entry = replace(entry, plan=DateOutcome.COPIED_FORWARD, survivors=parent_entry.survivors)
        snapshot_ids = delivered.get(day, ())
        entry = replace(entry, newest_snapshot=newest_snapshot(mode, snapshot_ids, parent_entry))
        _require_parent_complete(entry, parent_entry)
        # With several deliveries a value may change and change back. Then the row has its old values, but a new
        # update_id, which the parent's files lack. So only a date with one delivery can keep these files. Plan rewrite
        # decides this itself.
        is_unchanged = len(snapshot_ids) == 1 and not entry.new_keys and not entry.changed
        keeps_files = is_unchanged and mode is UpdateIdMode.LAST_CHANGED
        if parent_entry and keeps_files and files_of_date and plan.outcome is DateOutcome.WINDOW:
            reason = f"{plan.reason}; no row changed, so the parent's files are kept"
            entry = replace(entry, plan_reason=reason, cluster_overlap=parent_entry.cluster_overlap)
            files_of_date = None
        if files_of_date is None:
            files_of_date = parent.files_of(day)
            copied.add(day)
        entries.append(replace(entry, files_digest=files_digest(files_of_date)))
        files += files_of_date
        fingerprint = parent_entry.key_fingerprint if parent_entry else None
        is_same = fingerprint is not None and fingerprint == entry.key_fingerprint
        if is_same and not (written and written.wrote_sketch):
            same_fingerprints.add(day)
    return NewGeneration(tuple(entries), tuple(files), frozenset(copied), frozenset(same_fingerprints))


def _copied_entry(parent_entry: DateEntry, plan: DatePlan) -> DateEntry:
    """The entry of a date whose files are copied from the parent.

    An unchanged date repeats the parent's plan, unless that is COPIED_FORWARD: with this outcome the check for missing
    dates would report the date, although the replay did not read which dates its deliveries have.
    """
    repeats_plan = plan.outcome == DateOutcome.UNCHANGED and parent_entry.plan != DateOutcome.COPIED_FORWARD
    outcome = parent_entry.plan if repeats_plan else plan.outcome
    return replace(parent_entry, new_keys=0, changed=0, ties=0, plan=outcome, plan_reason=plan.reason)


def _written_entry(written: WrittenDate, plan: DatePlan, parent_entry: DateEntry | None) -> DateEntry:
    """The entry of a date that a plan wrote. Its `files_digest` is empty, to be set when its files are known."""
    cluster_overlap = written.cluster_overlap
    if written.files is None:
        assert parent_entry
        rows, ids = parent_entry.rows, [parent_entry.min_update_id, parent_entry.max_update_id]
        cluster_overlap = parent_entry.cluster_overlap
    else:
        rows = sum(file.rows for file in written.files)
        ids = [update_id for file in written.files for update_id in (file.min_update_id, file.max_update_id)]
    return DateEntry(
        date=written.day,
        rows=rows,
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
        cluster_overlap=cluster_overlap,
    )


def _require_parent_complete(entry: DateEntry, parent_entry: DateEntry | None) -> None:
    expected = parent_entry.rows if parent_entry else 0
    if entry.rows - entry.new_keys != expected:
        raise ContractViolation(
            f"Date [{entry.date}] has [{entry.rows - entry.new_keys}] keys of the parent after the dedup, expected "
            f"[{expected}] as the parent's manifest says: its data files were changed. Restore them, then retry."
        )


def files_digest(files: Iterable[DataFile]) -> str:
    """Return a digest of the files' paths, row counts and sizes, which does not depend on the order of `files`."""
    lines = sorted(f"{file.path} {file.rows} {file.size}" for file in files)
    return digest("\n".join(lines))
