"""Fakes the Spark dedup job, for tests of the publish protocol: it writes the rows and counts that the oracle computes.

It refuses the deliveries that a test names, and nothing else but duplicate keys in a table that is taken over.
"""

from __future__ import annotations

import io
import secrets
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.attempt import Attempt, Duplicates
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.erasure import ErasedRows, Erasure, Tombstone, Tombstones, parse_keys
from dedup_clone.contract.landed_objects import data_objects
from dedup_clone.contract.manifest import (
    Candidate,
    DataFile,
    DateEntry,
    DateOutcome,
    DeliveryMetrics,
    Difference,
    FileList,
    KeyExample,
    Manifest,
    RefusedDelivery,
    new_manifest,
)
from dedup_clone.contract.records import digest, from_json, to_json
from dedup_clone.contract.table import Absent, UpdateIdMode
from devstack.producer.declared_snapshots import schema
from testkit.oracle import DateCounts, Key, OracleDelivery, OracleState
from testkit.table_contracts import PRODUCTS, oracle_table

Row = dict[str, Any]
SCHEMA = schema(PRODUCTS)


def parquet_bytes(rows: list[Row], columns: pa.Schema = SCHEMA) -> bytes:
    """The content of a Parquet file with these rows."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), buffer)
    return buffer.getvalue()


class FakeDedupJob:
    """The fake. `client`: of Cloud Storage. `refused_ids`: the ids of the snapshots whose deliveries it refuses."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.refused_ids: set[int] = set()

    def run(self, request_uri: str) -> None:
        """Write data files and the candidate for an attempt."""
        attempt = self._record(Attempt, request_uri)
        # Each run writes into folders of its own, like the real job.
        attempt = replace(attempt, data_uri=f"{attempt.data_uri}{secrets.token_hex(4)}/")
        before = self._before(attempt)
        applied, refused = [], []
        for delivery in attempt.deliveries:
            rows, reason = self._landed(attempt, self._record(Arrival, attempt.arrival_uri(delivery))), ""
            if delivery.snapshot_id in self.refused_ids:
                reason = "column [x] has 1 bad row in [a.parquet]: deliver again"
            elif attempt.takes_over is Duplicates.REFUSE and len({before.table.key(row) for row in rows}) < len(rows):
                reason = "surplus rows of keys that occur more than once"
            if reason:
                refused.append(RefusedDelivery(delivery, reason))
            else:
                applied.append((delivery, OracleDelivery(delivery.snapshot_id, rows)))
        result = Candidate(refused=tuple(refused))
        if applied or attempt.erases:
            # An applied table that is taken over is no delivery.
            deliveries = tuple(d for d, _ in applied if attempt.takes_over is None)
            result = replace(result, deliveries=tuple(DeliveryMetrics(d, 1, 0, 0) for d in deliveries))
            if attempt.erases:
                after, result = self._erase(attempt, before, result)
            else:
                known = before.erased | self._erased_keys(attempt, [row for _, one in applied for row in one.rows])
                after = replace(before, erased=known).apply(
                    [one for _, one in applied], attempt.retention_day, only_some_dates=attempt.dates is not None
                )
            if attempt.takes_over is not None:
                after.newest = dict(attempt.newest_snapshots)
            result = self._with_files(attempt, before, after, result)
        self._write(f"{attempt.folder_uri}candidate.json", to_json(result))

    def _before(self, attempt: Attempt) -> OracleState:
        """The content of the table before this attempt."""
        state = OracleState(
            oracle_table(attempt.table),
            attempt.update_id_mode is UpdateIdMode.LAST_CHANGED,
            deletes_keys=attempt.table.absent_keys is Absent.DELETE,
            deletes_dates=attempt.table.absent_dates is Absent.DELETE,
        )
        if attempt.parent_files is None:
            return state
        parent = self._record(Manifest, attempt.parent_files.manifest_uri)
        files = self._record(FileList, attempt.parent_files.file_list_uri).files
        rows = self._rows(attempt, [f"{attempt.parent_files.data_uri}{file.path}" for file in files])
        newest = {entry.date: entry.newest_snapshot for entry in parent.dates if entry.newest_snapshot is not None}
        rows_by_key = {state.table.key(row): row for row in rows}
        return replace(state, rows=rows_by_key, newest=newest, newest_id=parent.newest_id or 0)

    def _landed(self, attempt: Attempt, arrival: Arrival) -> list[Row]:
        objects, _ = data_objects(attempt, arrival, lambda name: name)
        return self._rows(attempt, [f"gs://{arrival.bucket}/{found.landed.name}" for found in objects])

    def _erase(self, attempt: Attempt, before: OracleState, result: Candidate) -> tuple[OracleState, Candidate]:
        """Leave out the keys in the attempt's file of keys."""
        keys = parse_keys(self._read(attempt.erases).decode(), attempt.table)
        columns = tuple(column.name for column in keys.columns)
        digests = {digest(repr(values)) for values in keys.rows}
        gone = {key: row for key, row in before.rows.items() if _digest(row, columns) in digests}
        days: dict[str, set[date]] = {}
        for row in gone.values():
            days.setdefault(_digest(row, columns), set()).add(before.table.day(row))
        tombstones = tuple(Tombstone(one, tuple(sorted(days.get(one, ())))) for one in sorted(digests))
        rows = dict(Counter(map(before.table.day, gone.values())))
        erased = ErasedRows(rows, tombstones=Tombstones(columns, seed_id=0, hash_version=1, keys=tombstones))
        return before.erase(frozenset(gone)), replace(result, erased=erased)

    def _erased_keys(self, attempt: Attempt, rows: list[Row]) -> frozenset[Key]:
        """The keys of these rows that an earlier attempt of this fake has erased."""
        key, found = oracle_table(attempt.table).key, set()
        for uri in attempt.erasures:
            tombstones = self._record(Erasure, uri).tombstones
            digests = {one.digest for one in tombstones.keys}
            found |= {key(row) for row in rows if _digest(row, tombstones.columns) in digests}
        return frozenset(found)

    def _with_files(self, attempt: Attempt, before: OracleState, after: OracleState, result: Candidate) -> Candidate:
        """Write the files of the new generation, and of its changes, and return the candidate that names them."""
        day_of, files, entries = after.table.day, [], []
        for day in sorted(set(map(day_of, after.rows.values()))):
            rows = [row for row in after.rows.values() if day_of(row) == day]
            files.append(self._write_rows(attempt, day, rows))
            entries.append(_entry(attempt, files[-1], after))
        file_list, data_run = FileList(tuple(files)), attempt.data_uri.rstrip("/").rsplit("/", 1)[-1]
        deliveries = tuple(metrics.delivery for metrics in result.deliveries)
        manifest = new_manifest(
            attempt,
            deliveries,
            tuple(entries),
            dropped_rows=after.dropped,
            created_at=datetime.now(UTC),
            data_folder=attempt.data_uri,
            file_list_digest=digest(to_json(file_list)),
            deleted_dates=after.deleted_dates,
        )
        list_uri, uris_uri = f"{attempt.folder_uri}files-{data_run}.json", f"{attempt.folder_uri}uris-{data_run}.txt"
        self._write(list_uri, to_json(file_list))
        self._write(uris_uri, "".join(f"{attempt.data_uri}{file.path}\n" for file in files))
        changes_uri = None
        if attempt.changes_uri and before.rows and not attempt.erases:
            changes_uri = f"{attempt.folder_uri}changes-{data_run}.json"
            self._write(
                changes_uri, to_json(FileList(self._write_changes(attempt, manifest.snapshot_id, before, after)))
            )
        return replace(
            result,
            manifest=manifest,
            file_list_uri=list_uri,
            load_uris_uri=uris_uri,
            examples=_examples(attempt, before, after),
            seconds={"all": 1.0},
            changes_uri=changes_uri,
        )

    def _write_rows(self, attempt: Attempt, day: date, rows: list[Row]) -> DataFile:
        """Write one file. Its name contains a digest of its content, so an unchanged date has the same path again."""
        content = parquet_bytes(rows, schema(attempt.table))
        path = f"{attempt.table.partition_column}={day}/part-{digest(content.hex())[:12]}.parquet"
        self._write(f"{attempt.data_uri}{path}", content)
        ids = [row[attempt.table.snapshot_id_column] for row in rows]
        return DataFile(path, day, len(rows), len(content), min(ids), max(ids))

    def _write_changes(
        self, attempt: Attempt, snapshot_id: int, before: OracleState, after: OracleState
    ) -> tuple[DataFile, ...]:
        """Write the rows for the table of changes into one file."""
        day, columns = attempt.taken_at.date(), schema(attempt.table)
        fixed = {"publish_date": day, "generation": attempt.generation, "snapshot_id": snapshot_id}
        changes = [
            {
                **fixed,
                "change_type": change.kind,
                **{name: (change.new or change.old or {})[name] for name in attempt.table.keys},
                "old_row": change.old,
                "new_row": change.new,
            }
            for change in after.changes_since(before, attempt.retention_day)
        ]
        if not changes:
            return ()
        types = dict(zip((*fixed, "change_type"), (pa.date32(), pa.int64(), pa.int64(), pa.string()), strict=True))
        fields = [
            *(pa.field(name, kind, nullable=False) for name, kind in types.items()),
            *(columns.field(name) for name in attempt.table.keys),
            *(pa.field(name, pa.struct(list(columns))) for name in ("old_row", "new_row")),
        ]
        content, path = parquet_bytes(changes, pa.schema(fields)), "fake/changes.parquet"
        self._write(f"{attempt.changes_uri}{path}", content)
        return (DataFile(path, day, len(changes), len(content), snapshot_id, snapshot_id),)

    def _rows(self, attempt: Attempt, uris: list[str]) -> list[Row]:
        """The rows of these files, with NULL in columns that they lack."""
        names = [column.name for column in attempt.table.columns]
        found = [row for uri in uris if uri.endswith(".parquet") for row in self._file(uri)]
        return [{name: row.get(name) for name in names} for row in found]

    def _file(self, uri: str) -> list[Row]:
        rows: list[Row] = pq.read_table(io.BytesIO(self._read(uri))).to_pylist()
        return rows

    def _record(self, kind: type[Any], uri: str) -> Any:
        return from_json(kind, self._read(uri).decode(), where=uri)

    def _read(self, uri: str) -> bytes:
        content: bytes = self._blob(uri).download_as_bytes()
        return content

    def _write(self, uri: str, content: str | bytes) -> None:
        self._blob(uri).upload_from_string(content)

    def _blob(self, uri: str) -> Any:
        bucket, name = uri.removeprefix("gs://").split("/", 1)
        return self._client.bucket(bucket).blob(name)


def _digest(row: Row, columns: tuple[str, ...]) -> str:
    return digest(repr(tuple(row[name] for name in columns)))


def _entry(attempt: Attempt, file: DataFile, after: OracleState) -> DateEntry:
    counts = after.counts.get(file.date)
    outcome = DateOutcome.ERASED if attempt.erases else DateOutcome.WINDOW if counts else DateOutcome.COPIED_FORWARD
    counts = counts or DateCounts()
    return DateEntry(
        date=file.date,
        rows=file.rows,
        new_keys=counts.new_keys,
        changed=counts.changed,
        survivors=counts.survivors,
        ties=counts.ties,
        plan=outcome,
        plan_reason="",
        min_update_id=file.min_update_id,
        max_update_id=file.max_update_id,
        adopted_delivery=None,
        key_fingerprint=None,
        files_digest=digest(f"{file.path} {file.rows} {file.size}"),
        newest_snapshot=after.newest.get(file.date),
        deleted=counts.deleted,
    )


def _examples(attempt: Attempt, before: OracleState, after: OracleState) -> tuple[KeyExample, ...]:
    """The keys of up to three new, of three changed and of three deleted rows."""
    column = attempt.table.partition_column
    name, examples = next(name for name in attempt.table.keys if name != column), []
    changes = after.changes_since(before, attempt.retention_day)
    for difference, kind in (
        (Difference.NEW, "new"),
        (Difference.CHANGED, "changed"),
        (Difference.SURVIVOR, "deleted"),
    ):
        rows = [row for one in changes if one.kind == kind and (row := one.new or one.old)]
        examples += [KeyExample(before.table.day(row), difference, f"{name}={row[name]}") for row in rows[:3]]
    return tuple(examples)
