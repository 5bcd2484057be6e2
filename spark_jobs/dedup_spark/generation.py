"""The new generation's manifest, from what was written and what was carried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import FORMAT_VERSION, DataFile, DateEntry, KeyExample, Manifest
from dedup_clone.contract.records import digest
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.adopt.orders import AdoptedDate, DateCost
from dedup_spark.choice import CARRIED, KEPT, Choice
from dedup_spark.parent import Parent
from dedup_spark.rewrite.orders import RewrittenDate
from dedup_spark.run_plan import WrittenFile


@dataclass(frozen=True)
class Results:
    """What the plans made. `fingerprints` are of dates that Spark wrote, as far as they are known.

    `declined` are those of them whose fingerprints another plan has written already.
    """

    written: tuple[WrittenFile, ...]
    adopted: dict[date, AdoptedDate]
    fingerprints: dict[date, str]
    costs: dict[date, DateCost]
    rewritten: dict[date, RewrittenDate] = field(default_factory=dict)
    declined: frozenset[date] = frozenset()

    @property
    def dates(self) -> set[date]:
        """Dates that were looked at or written."""
        return {record.file.date for record in self.written} | self.costs.keys() | self.rewritten.keys()

    def ties(self, source: int) -> int:
        """Surplus rows of one applied delivery, by its number."""
        adopted = sum(found.ties.get(source, 0) for found in self.adopted.values())
        rewritten = sum(found.ties.get(source, 0) for found in self.rewritten.values())
        return adopted + rewritten + sum(record.ties[source] for record in self.written)

    def examples(self) -> list[KeyExample]:
        found = [example for adopted in self.adopted.values() for example in adopted.examples]
        found += [example for rewritten in self.rewritten.values() for example in rewritten.examples]
        return found + [example for record in self.written for example in record.examples]


@dataclass(frozen=True)
class Generation:
    """Dates and files of the new generation; `carried` are the dates whose files are still to be copied.

    `same_fingerprints` are the dates whose fingerprints are the parent's and are to be copied, too.
    """

    dates: tuple[DateEntry, ...]
    files: tuple[DataFile, ...]
    carried: frozenset[date]
    same_fingerprints: frozenset[date]


def assemble(
    mode: UpdateIdMode,
    choices: Mapping[date, Choice],
    delivered: Mapping[date, int],
    results: Results,
    parent: Parent,
) -> Generation:
    """`delivered` says how many applied deliveries have a date. Raises ContractViolation when counts contradict."""
    by_date: defaultdict[date, list[WrittenFile]] = defaultdict(list)
    for record in results.written:
        by_date[record.file.date].append(record)
    entries: list[DateEntry] = []
    files: list[DataFile] = []
    carried: set[date] = set()
    for day, choice in choices.items():
        before = parent.dates.get(day)
        adopted, rewritten = results.adopted.get(day), results.rewritten.get(day)
        if adopted:
            entry = _adopted(adopted)
        elif rewritten:
            entry = _rewritten(rewritten, choice, before)
        elif choice.plan in (CARRIED, KEPT):
            entry = _carried(parent.dates[day], choice)
        else:
            entry = replace(_entry(day, choice, by_date[day]), key_fingerprint=results.fingerprints.get(day))
        _require_parent_complete(entry, before)
        if before and day not in delivered:
            entry = replace(entry, survivors=before.survivors)
        own = _own_files(day, results, by_date[day])
        # A value may change and change back from one delivery to the next: the row is as before, its update_id is not.
        once = mode is UpdateIdMode.LAST_CHANGED and delivered.get(day) == 1
        if own and not rewritten and once and _is_as_before(entry, before):
            entry = replace(entry, plan_reason=f"{choice.reason}; no row changed, so the parent's files are kept")
            own = None
        if own is None:
            own = parent.files_of(day)
            carried.add(day)
        entries.append(replace(entry, files_digest=files_digest(own)))
        files += own
    same = frozenset(entry.date for entry in entries if _has_parents_fingerprints(entry, results, parent))
    return Generation(tuple(entries), tuple(files), frozenset(carried), same)


def _own_files(day: date, results: Results, written: list[WrittenFile]) -> tuple[DataFile, ...] | None:
    """None where the parent's stay."""
    if day in results.adopted:
        return results.adopted[day].files
    if day in results.rewritten:
        return results.rewritten[day].files
    return tuple(record.file for record in written) or None


def _has_parents_fingerprints(entry: DateEntry, results: Results, parent: Parent) -> bool:
    before, rewritten = parent.dates.get(entry.date), results.rewritten.get(entry.date)
    if entry.date in results.adopted or entry.date in results.declined or (rewritten and rewritten.wrote_fingerprints):
        return False
    known = before.key_fingerprint if before else None
    return known is not None and known == entry.key_fingerprint


def _rewritten(found: RewrittenDate, choice: Choice, before: DateEntry | None) -> DateEntry:
    ids = [(file.min_update_id, file.max_update_id) for file in found.files or ()]
    if found.files is None and before:
        ids = [(before.min_update_id, before.max_update_id)]
    return DateEntry(
        date=found.day,
        rows=found.rows,
        new_keys=found.new_keys,
        changed=found.changed,
        survivors=found.survivors,
        ties=sum(found.ties.values()),
        plan=Plan.REWRITE,
        plan_reason=choice.reason,
        min_update_id=min(low for low, _ in ids),
        max_update_id=max(high for _, high in ids),
        adopted_delivery=None,
        key_fingerprint=found.key_fingerprint,
        content_fingerprint=found.content_fingerprint,
        files_digest="",
    )


def _carried(before: DateEntry, choice: Choice) -> DateEntry:
    plan = before.plan if choice.plan == KEPT else choice.plan
    return replace(before, new_keys=0, changed=0, ties=0, plan=plan, plan_reason=choice.reason)


def _adopted(found: AdoptedDate) -> DateEntry:
    return DateEntry(
        date=found.day,
        rows=sum(file.rows for file in found.files),
        new_keys=found.new_keys,
        changed=found.changed,
        survivors=found.survivors,
        ties=sum(found.ties.values()),
        plan=Plan.ADOPT,
        plan_reason=found.reason,
        min_update_id=min(file.min_update_id for file in found.files),
        max_update_id=max(file.max_update_id for file in found.files),
        adopted_delivery=found.delivery,
        key_fingerprint=found.key_fingerprint,
        content_fingerprint=found.content_fingerprint,
        files_digest="",
    )


def _entry(day: date, choice: Choice, written: list[WrittenFile]) -> DateEntry:
    return DateEntry(
        date=day,
        rows=sum(record.file.rows for record in written),
        new_keys=sum(record.new_keys for record in written),
        changed=sum(record.changed for record in written),
        survivors=sum(record.survivors for record in written),
        ties=sum(sum(record.ties) for record in written),
        plan=choice.plan,
        plan_reason=choice.reason,
        min_update_id=min(record.file.min_update_id for record in written),
        max_update_id=max(record.file.max_update_id for record in written),
        adopted_delivery=None,
        key_fingerprint=None,
        content_fingerprint=None,
        files_digest="",
    )


def _require_parent_complete(entry: DateEntry, before: DateEntry | None) -> None:
    held = before.rows if before else 0
    if entry.rows - entry.new_keys != held:
        raise ContractViolation(
            f"Date [{entry.date}] has [{entry.rows - entry.new_keys}] keys of the parent after the dedup, expected "
            f"[{held}] as the parent's manifest says: its data files were changed. Restore them, then retry."
        )


def _is_as_before(entry: DateEntry, before: DateEntry | None) -> bool:
    return before is not None and not entry.new_keys and not entry.changed


def files_digest(files: Iterable[DataFile]) -> str:
    lines = sorted(f"{file.path} {file.rows} {file.size}" for file in files)
    return digest("\n".join(lines))


def header(
    request: DedupRequest,
    generation: Generation,
    applied: tuple[Delivery, ...],
    *,
    dropped_rows: int,
    file_list_digest: str,
) -> Manifest:
    """`dropped_rows` are older than the retention, of the applied deliveries and of the parent."""
    return Manifest(
        format_version=FORMAT_VERSION,
        feed=request.feed,
        generation=request.generation,
        parent=request.parent.generation if request.parent else None,
        restores=None,
        engine=Engine.SPARK,
        table=request.table,
        update_id_mode=request.update_id_mode,
        retention_day=request.retention_day,
        data_folder=request.data_uri,
        file_list_digest=file_list_digest,
        deliveries=request.folded_with(applied),
        excluded=request.excluded,
        applied=applied,
        code_version=request.code_version,
        run_id=request.run_id,
        attempt=request.attempt,
        created_at=datetime.now(UTC),
        dropped_rows=dropped_rows,
        dates=generation.dates,
    )
