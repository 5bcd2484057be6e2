"""Compares what a manifest says of a generation with what the oracle computed of its table."""

from __future__ import annotations

from collections import defaultdict
from datetime import date

from dedup_clone.contract.manifest import Manifest
from testkit.oracle import OracleState


def assert_manifest(manifest: Manifest, expected: OracleState) -> None:
    """Assert that counts, ids and newest snapshots of all dates are those of the oracle's last publish.

    A job that was not asked to compare values says None for the number of changed rows.
    """
    snapshot_id = expected.table.snapshot_id_column
    ids: defaultdict[date, list[int]] = defaultdict(list)
    for row in expected.rows.values():
        ids[expected.table.day(row)].append(row[snapshot_id])
    assert {e.date: (e.rows, e.min_update_id, e.max_update_id) for e in manifest.dates if e.rows} == {
        day: (len(found), min(found), max(found)) for day, found in ids.items()
    }
    assert manifest.dropped_rows == expected.dropped
    assert manifest.deleted_dates == expected.deleted_dates
    newest = {e.date: e.newest_snapshot for e in manifest.dates if e.newest_snapshot is not None and e.rows}
    assert newest == {day: found for day, found in expected.newest.items() if day in ids}
    entries = {entry.date: entry for entry in manifest.dates}
    for day, counts in expected.counts.items():
        entry = entries.get(day)
        if entry is None:
            assert counts.rows == 0
            continue
        changed = counts.changed if entry.changed is None else entry.changed
        found_counts = (entry.new_keys, changed, entry.survivors, entry.deleted, entry.ties)
        expected_counts = (counts.new_keys, counts.changed, counts.survivors, counts.deleted, counts.ties)
        assert found_counts == expected_counts, entry
