"""Fakes the Spark dedup job in plain Python, for tests of the publish protocol, which then need not start Spark.

The fake reads a request and writes data files and a candidate, as the job does, but for simple inputs only. It expects
deliveries without expired rows, and, except in a takeover of a table's rows, without duplicate keys. A date that
`request.dates` leaves out is written anew, too, though recorded as copied forward.
"""

from __future__ import annotations

import io
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.landed_objects import data_objects
from dedup_clone.contract.manifest import (
    FORMAT_VERSION,
    Candidate,
    DataFile,
    DateEntry,
    DateOutcome,
    DedupMetrics,
    DeliveryMetrics,
    Difference,
    FileList,
    KeyExample,
    Manifest,
    RefusedDelivery,
    newest_snapshot,
)
from dedup_clone.contract.records import digest, from_json, to_json
from dedup_clone.contract.request import DedupRequest, Duplicates, RequestedChanges
from dedup_clone.contract.table import UpdateIdMode
from devstack.producer.declared_snapshots import schema

Row = dict[str, Any]
METRICS = DedupMetrics(1, 1, {"all": 1.0})
SCHEMA = pa.schema(
    [
        ("date", pa.date32()),
        ("product_id", pa.int64()),
        ("store_id", pa.int64()),
        ("attribute_id", pa.int64()),
        ("attr_value", pa.int64()),
        ("update_id", pa.int64()),
    ]
)


class FakeDedupJob:
    """The fake. `client`: of Cloud Storage. `refused_ids`: the ids of the snapshots whose deliveries it refuses."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.refused_ids: set[int] = set()

    def run(self, request_uri: str) -> None:
        """Write data files and the candidate for a request."""
        request = from_json(DedupRequest, self._read(request_uri).decode(), where=request_uri)
        rows: dict[tuple[Any, ...], Row] = {}
        parent_rows: dict[tuple[Any, ...], Row] = {}
        if request.parent:
            files = from_json(FileList, self._read(request.parent.file_list_uri).decode(), where="parent").files
            for file in files:
                for row in self._rows(f"{request.parent.data_uri}{file.path}"):
                    parent_rows[_key(request, row)] = row
        expired_keys = [key for key, row in parent_rows.items() if _day(request, row) < request.retention_day]
        parent_rows = {key: row for key, row in parent_rows.items() if key not in expired_keys}
        rows.update(parent_rows)
        applied, refused, newest_keys, surplus = [], [], set(), Counter[date]()
        delivered: defaultdict[date, set[int]] = defaultdict(set)
        for item in request.deliveries:
            if item.delivery.snapshot_id in self.refused_ids:
                refused.append(RefusedDelivery(item.delivery, "column [x] has 1 bad row in [a.parquet]: deliver again"))
                continue
            arrival = from_json(Arrival, self._read(item.arrival_uri).decode(), where=item.arrival_uri)
            objects, _ = data_objects(request, arrival, lambda name: name)
            landed = [r for o in objects for r in self._rows(f"gs://{arrival.bucket}/{o.landed.name}")]
            newest_keys = {_key(request, r) for r in landed}
            surplus = _surplus(request, landed)
            if request.takes_over is Duplicates.REFUSE and surplus:
                refused.append(
                    RefusedDelivery(
                        item.delivery, f"[{surplus.total()}] surplus rows of keys that occur more than once"
                    )
                )
                continue
            for row in landed:
                delivered[_day(request, row)].add(item.delivery.snapshot_id)
                if (current := rows.get(_key(request, row))) is None or _replaces(request, current, row):
                    rows[_key(request, row)] = row
            applied.append(item.delivery)
        newest = request.newest_snapshots if request.takes_over else self._newest_snapshots(request, delivered)
        self._write_result(
            request, rows, parent_rows, newest_keys, newest, tuple(applied), tuple(refused), len(expired_keys), surplus
        )

    def _newest_snapshots(self, request: DedupRequest, delivered: Mapping[date, set[int]]) -> dict[date, int | None]:
        """The newest snapshot of each date. `delivered`: by date, the ids of the applied snapshots."""
        entries: dict[date, DateEntry] = {}
        if request.parent:
            parent = from_json(Manifest, self._read(request.parent.manifest_uri).decode(), where="parent")
            entries = {entry.date: entry for entry in parent.dates}
        return {
            day: newest_snapshot(request.update_id_mode, delivered.get(day, ()), entries.get(day))
            for day in {*entries, *delivered}
        }

    def _write_result(
        self,
        request: DedupRequest,
        rows: Any,
        parent_rows: Any,
        newest_keys: Any,
        newest: Mapping[date, int | None],
        applied: Any,
        refused: Any,
        dropped: int,
        surplus: Counter[date],
    ) -> None:
        """Write data files and the candidate.

        `rows`, `parent_rows`: by key, the rows of the new generation and of its parent. `newest_keys`: the keys of the
        last delivery. `newest`: the newest snapshot of each date. `applied`, `refused`: deliveries. `dropped`: the
        number of expired rows of the parent. `surplus`: the number of surplus rows of each date.
        """
        suffix = secrets.token_hex(4)  # each run writes names of its own, like the runs of the real job
        request = replace(request, data_uri=f"{request.data_uri}{suffix}/")
        if not applied:
            self._write_candidate(request, Candidate(None, None, None, (), refused, (), DedupMetrics(0, 0, {})))
            return
        files, entries = [], []
        for day in sorted({_day(request, r) for r in rows.values()}):
            rows_of_day = {k: r for k, r in rows.items() if _day(request, r) == day}
            files.append(self._write(request, day, list(rows_of_day.values())))
            entry = _entry(request, files[-1], rows_of_day, parent_rows, newest_keys)
            entry = replace(entry, ties=surplus[day], newest_snapshot=newest.get(day))
            is_requested = request.dates is None or day in request.dates
            entries.append(entry if is_requested else replace(entry, plan=DateOutcome.COPIED_FORWARD, survivors=0))
        if request.takes_over is not None:
            applied = ()  # the table's rows are no delivery
        file_list = FileList(tuple(files))
        manifest = Manifest(
            format_version=FORMAT_VERSION,
            feed=request.feed,
            generation=request.generation,
            parent=request.parent.generation if request.parent else None,
            restores=None,
            engine=request.engine,
            table=request.table,
            update_id_mode=request.update_id_mode,
            retention_day=request.retention_day,
            data_folder=request.data_uri,
            file_list_digest=digest(to_json(file_list)),
            deliveries=request.included_deliveries(applied),
            excluded=request.excluded,
            applied=applied,
            code_version=request.code_version,
            run_id=request.run_id,
            attempt=request.attempt,
            created_at=datetime.now(UTC),
            dropped_rows=dropped,
            dates=tuple(entries),
        )
        list_uri, uris_uri = f"{request.attempt_uri}files-{suffix}.json", f"{request.attempt_uri}uris-{suffix}.txt"
        self._write_text(list_uri, to_json(file_list))
        self._write_text(uris_uri, "".join(f"{request.data_uri}{f.path}\n" for f in files))
        metrics = tuple(DeliveryMetrics(d, len(newest_keys), 0, 0) for d in applied)
        candidate = Candidate(
            manifest, list_uri, uris_uri, metrics, refused, _examples(request, rows, parent_rows), METRICS
        )
        if request.changes and parent_rows:
            uri = f"{request.attempt_uri}changes-{suffix}.json"
            changes = self._write_changes(request, request.changes, manifest.snapshot_id, rows, parent_rows)
            self._write_text(uri, to_json(FileList(changes)))
            candidate = replace(candidate, changes_uri=uri)
        self._write_candidate(request, candidate)

    def _write_changes(
        self, request: DedupRequest, requested: RequestedChanges, snapshot_id: int, rows: Any, parent_rows: Any
    ) -> tuple[DataFile, ...]:
        """Write new and changed rows into one file. Unlike the job, the fake finds no missing and no returned keys."""
        changes = [
            {
                "publish_date": requested.publish_day,
                "generation": request.generation,
                "snapshot_id": snapshot_id,
                "change_type": "changed" if key in parent_rows else "new",
                **{name: new[name] for name in request.table.keys},
                "old_row": parent_rows.get(key),
                "new_row": new,
            }
            for key, new in rows.items()
            if key not in parent_rows or _differs(request, parent_rows[key], new)
        ]
        if not changes:
            return ()
        content, path = parquet_bytes(changes, _changes_schema(request)), "fake/changes.parquet"
        self._blob(f"{requested.uri}{path}").upload_from_string(content)
        return (DataFile(path, requested.publish_day, len(changes), len(content), snapshot_id, snapshot_id),)

    def _write(self, request: DedupRequest, day: date, rows: list[Row]) -> DataFile:
        """Write one file. Its name contains a digest of its content, so an unchanged date has the same path again."""
        content = parquet_bytes(rows, schema(request.table))
        path = f"{request.table.partition_column}={day}/part-{digest(content.hex())[:12]}.parquet"
        self._blob(f"{request.data_uri}{path}").upload_from_string(content)
        ids = [r[request.table.snapshot_id_column] for r in rows]
        return DataFile(path, day, len(rows), len(content), min(ids), max(ids))

    def _write_candidate(self, request: DedupRequest, candidate: Candidate) -> None:
        self._write_text(f"{request.attempt_uri}candidate.json", to_json(candidate))

    def _rows(self, uri: str) -> list[Row]:
        return pq.read_table(io.BytesIO(self._read(uri))).to_pylist() if uri.endswith(".parquet") else []

    def _read(self, uri: str) -> bytes:
        content: bytes = self._blob(uri).download_as_bytes()
        return content

    def _write_text(self, uri: str, text: str) -> None:
        self._blob(uri).upload_from_string(text)

    def _blob(self, uri: str) -> Any:
        bucket, name = uri.removeprefix("gs://").split("/", 1)
        return self._client.bucket(bucket).blob(name)


def _differs(request: DedupRequest, old: Row, new: Row) -> bool:
    """Whether the table of changes must have a row for the key of these two rows."""
    names = [column.name for column in request.table.value_columns]
    if request.update_id_mode is UpdateIdMode.LAST_CHANGED:
        # A row that changed twice since the parent may have its old values again, with a newer id.
        names.append(request.table.snapshot_id_column)
    return any(old.get(name) != new.get(name) for name in names)


def _changes_schema(request: DedupRequest) -> pa.Schema:
    columns = schema(request.table)
    required = {"publish_date": pa.date32(), "generation": pa.int64(), "snapshot_id": pa.int64()}
    return pa.schema(
        [
            *[pa.field(name, kind, nullable=False) for name, kind in {**required, "change_type": pa.string()}.items()],
            *[columns.field(name) for name in request.table.keys],
            *[(name, pa.struct(list(columns))) for name in ("old_row", "new_row")],
        ]
    )


def parquet_bytes(rows: list[Row], columns: pa.Schema = SCHEMA) -> bytes:
    """The content of a Parquet file with these rows."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), buffer)
    return buffer.getvalue()


def _key(request: DedupRequest, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in request.table.keys)


def _day(request: DedupRequest, row: Row) -> date:
    day: date = row[request.table.partition_column]
    return day


def _is_changed(request: DedupRequest, row: Row, before: Row | None) -> bool:
    """Whether a value column differs. `before`: the key's earlier row; None for a new key, which is not changed."""
    return before is not None and any(before.get(c.name) != row.get(c.name) for c in request.table.value_columns)


def _replaces(request: DedupRequest, current: Row, later: Row) -> bool:
    """Whether `later`, a row of a later delivery, replaces the current row of its key."""
    if request.update_id_mode is UpdateIdMode.LAST_CHANGED and not _is_changed(request, later, current):
        return False
    id_column = request.table.snapshot_id_column
    return bool(current[id_column] <= later[id_column])


def _surplus(request: DedupRequest, rows: list[Row]) -> Counter[date]:
    """The number of surplus rows of each date. Counted only if the request takes over a table's rows."""
    if request.takes_over is None:
        return Counter()
    unique = {_key(request, r): _day(request, r) for r in rows}
    return Counter(_day(request, r) for r in rows) - Counter(unique.values())


def _entry(
    request: DedupRequest, file: DataFile, rows: dict[Any, Row], parent_rows: dict[Any, Row], newest_keys: set[Any]
) -> DateEntry:
    ids = [r[request.table.snapshot_id_column] for r in rows.values()]
    return DateEntry(
        date=file.date,
        rows=len(rows),
        new_keys=sum(key not in parent_rows for key in rows),
        changed=sum(_is_changed(request, r, parent_rows.get(key)) for key, r in rows.items()),
        survivors=sum(key not in newest_keys for key in rows),
        ties=0,
        plan=DateOutcome.WINDOW,
        plan_reason="",
        min_update_id=min(ids),
        max_update_id=max(ids),
        adopted_delivery=None,
        key_fingerprint=None,
        content_fingerprint=None,
        files_digest=digest(f"{file.path} {file.rows} {file.size}"),
    )


def _examples(request: DedupRequest, rows: dict[Any, Row], parent_rows: dict[Any, Row]) -> tuple[KeyExample, ...]:
    changed = [r for key, r in rows.items() if _is_changed(request, r, parent_rows.get(key))]
    name = next(name for name in request.table.keys if name != request.table.partition_column)
    return tuple(KeyExample(_day(request, r), Difference.CHANGED, f"{name}={r[name]}") for r in changed[:3])
