"""Writes and finds the records of erasures (certificates), with hashes of the keys that later publishes leave out.

A publish adds to a record which of the record's keys the producer's newest snapshot no longer contains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from dedup_clone.contract.attempt import Attempt, Kind
from dedup_clone.contract.erasure import ErasedRows, Erasure, Tombstone
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.services import Services
from dedup_clone.state.layout import generation_of, names_up_to

# How long BigQuery keeps deleted data after time travel ends (its page "Time travel and fail-safe").
FAIL_SAFE = timedelta(days=7)


def erasures_up_to(services: Services, generation: int | None) -> list[int]:
    """The generations of all erasures up to `generation`, ascending; none if it is None."""
    if generation is None:
        return []
    names = {info.name for info in services.store.objects(services.layout.erasures)}
    found = {n for name in names if (n := generation_of(name)) is not None and n <= generation}
    # A copy in a subfolder ends like a record, too.
    return sorted(n for n in found if services.layout.erasure(n) in names)


def last_erasure_generation(services: Services, generation: int | None) -> int:
    """The generation of the last erasure up to `generation`; 0 without one.

    Older generations may still contain erased keys.
    """
    return max(erasures_up_to(services, generation), default=0)


def erasure_uris(services: Services, generation: int | None) -> tuple[str, ...]:
    """The URIs of the records whose keys a generation built on `generation` must leave out."""
    return tuple(services.store.uri(services.layout.erasure(n)) for n in erasures_up_to(services, generation))


def record_erasure(services: Services, attempt: Attempt, candidate: Candidate, manifest: Manifest) -> None:
    """Before the commit, write an erasure's record, or add to earlier records which keys the newest snapshot lacks.

    Safe to repeat.
    """
    if candidate.erased is None:
        return
    if attempt.kind is Kind.ERASE:
        _write_certificate(services, candidate.erased, manifest, attempt.reason)
    elif attempt.dates is None and _examined_newest_snapshot(manifest):
        _record_absent_keys(services, candidate.erased, manifest)


def _write_certificate(services: Services, erased: ErasedRows, manifest: Manifest, reason: str) -> None:
    if erased.tombstones is None:
        raise ContractViolation(
            f"The candidate of erasure [{manifest.attempt}] has no tombstones: report it, and mark the run as failed."
        )
    names = services.names
    certificate = Erasure(
        feed=services.feed.feed,
        generation=manifest.generation,
        attempt=manifest.attempt,
        run_id=manifest.run_id,
        reason=reason,
        erased_at=services.now(),
        rows=erased.rows,
        tombstones=erased.tombstones,
        tables=tuple(_full_name(services, name) for name in (names.target_table, names.staging_table)),
        folders_to_delete=tuple(_older_folders(services, manifest.generation)),
    )
    services.store.create(services.layout.erasure(manifest.generation), to_json(certificate))


def _older_folders(services: Services, generation: int) -> list[str]:
    layout, folders = services.layout, services.store.folders
    found = [*folders(layout.data), *folders(layout.attempts), *folders(layout.changes)]
    return [services.store.uri(folder) for folder in names_up_to(found, generation - 1)]


def _full_name(services: Services, table: str) -> str:
    return f"{services.names.project}.{services.names.dataset}.{table}"


def erasure_of_run(services: Services, run_id: str) -> Erasure | None:
    """The record of the erasure that the DAG run has committed; None if it has committed none."""
    infos = services.store.objects(services.layout.erasures)
    names = [info.name for info in infos if generation_of(info.name) is not None]
    records = [r for r in services.store.read_records(Erasure, names) if r.run_id == run_id]
    return max(records, key=lambda record: record.generation, default=None)


def record_tables(services: Services, generation: int, tables: Sequence[str]) -> None:
    """Add tables to an erasure's record, before they are dropped: a later try would not find them any more."""

    def add(record: Erasure | None) -> Erasure:
        assert record  # nobody deletes it
        added = (_full_name(services, table) for table in tables)
        return replace(record, tables=tuple(dict.fromkeys((*record.tables, *added))))

    services.store.change_record(Erasure, services.layout.erasure(generation), add)


def complete_certificate(
    services: Services, generation: int, *, deleted: Sequence[str], change_rows: int | None
) -> None:
    """Add to an erasure's record that everything is deleted now, and from when on nothing can be restored.

    `deleted`: folders of the state bucket. `change_rows`: the number of rows that were deleted from `FEED_changes`;
    None without that table.
    """
    now, name = services.now(), services.layout.erasure(generation)
    time_travel_ends = now + services.warehouse.time_travel_window()

    def complete(record: Erasure | None) -> Erasure | None:
        assert record  # nobody deletes it
        if record.deleted_at:
            return None  # another try was faster; this one has found less to delete
        return replace(
            record,
            change_rows=change_rows,
            folders_to_delete=(),
            deleted_folders=tuple(sorted({*record.folders_to_delete, *map(services.store.uri, deleted)})),
            deleted_at=now,
            time_travel_ends=time_travel_ends,
            fail_safe_ends=time_travel_ends + FAIL_SAFE,
            versions_end=services.store.versions_end(deleted_at=now),
        )

    services.store.change_record(Erasure, name, complete)


def _examined_newest_snapshot(manifest: Manifest) -> bool:
    """Whether a publish of all dates found out which erased keys the producer's newest snapshot contains.

    The newest delivery that it applied must be the newest that the generation includes. In mode last_changed it must be
    the only applied one, because with several the update_id of a row does not tell whether the newest delivery has the
    row.
    """
    if not manifest.applied:
        return False
    is_single = manifest.update_id_mode is UpdateIdMode.LAST_SEEN or len(manifest.applied) == 1
    return is_single and manifest.applied[-1] == manifest.deliveries[-1]


def _record_absent_keys(services: Services, erased: ErasedRows, manifest: Manifest) -> None:
    """Set `absent_since` of each erased key that the newest snapshot lacks.

    If a later snapshot has the key again, the producer has made it again, and its rows are accepted.
    """
    delivered_digests, examined_dates = set(erased.delivered), set(erased.examined)

    def is_absent(key: Tombstone) -> bool:
        dates: set[date] = {day for day in key.dates if day >= manifest.retention_day}
        return key.absent_since is None and key.digest not in delivered_digests and dates <= examined_dates

    def mark_absent(record: Erasure | None) -> Erasure | None:
        if record is None or not any(map(is_absent, record.tombstones.keys)):
            return None
        keys = (
            replace(key, absent_since=manifest.snapshot_id) if is_absent(key) else key for key in record.tombstones.keys
        )
        return replace(record, tombstones=replace(record.tombstones, keys=tuple(keys)))

    for number in erasures_up_to(services, manifest.parent):
        services.store.change_record(Erasure, services.layout.erasure(number), mark_absent)
