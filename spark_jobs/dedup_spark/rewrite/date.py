"""One date written anew, from order to outcome. Called on the driver or in a Spark task; holds no Spark objects."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from dedup_clone.contract.manifest import DataFile, KeyExample
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.adopt.key_reader import KeyReader
from dedup_spark.adopt.orders import DateCost
from dedup_spark.adopt.rows import RowSource, read_rows
from dedup_spark.adopt.side import Budget, Hashing, Side
from dedup_spark.fingerprints import stored
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.value_hashing import ValueHasher
from dedup_spark.rewrite.changes import Changes, find_changes
from dedup_spark.rewrite.file_sizes import are_scattered
from dedup_spark.rewrite.orders import DeliveredFiles, LeftToSpark, Regime, RewriteOrder, RewrittenDate
from dedup_spark.sorted_files import SortedFiles


@dataclass(frozen=True)
class RewriteDate:
    """`file_bytes` is the size that a file should have; `held_bytes` of decoded keys are kept between two passes."""

    table: TableContract
    data_uri: str
    file_bytes: int
    held_bytes: int

    def __call__(self, order: RewriteOrder) -> RewrittenDate | LeftToSpark:
        """Writes the date's files below the data folder, or none where no row changed, or leaves the date to Spark."""
        return self.with_reader(order, KeyReader(self.table))

    def with_reader(self, order: RewriteOrder, reader: KeyReader) -> RewrittenDate | LeftToSpark:
        """The same, through a reader that may do more with the rows. The delivery's files are read first."""
        began = time.monotonic()
        if order.delivered is None:
            return self._sorted_anew(order, reader, began)
        newest, held = self._sides(order, order.delivered, reader)
        found = find_changes(self.table, order, newest, held)
        if isinstance(found, str):
            return LeftToSpark(order.day, found, _cost(reader, 0, began))
        stays = self._stays(order, found)
        files = None if stays else self._write(order, found, reader)
        kept = _fingerprints_to_keep(order, found, files or ())
        written = stored.write(self._fingerprint_uri(order), kept.new, key_columns(self.table)) if kept.new else 0
        rows = order.held.rows if stays and order.held else sum(file.rows for file in files or ())
        return RewrittenDate(
            day=order.day,
            files=files,
            rows=rows,
            new_keys=found.new_keys,
            changed=found.changed,
            survivors=rows - found.fingerprints.rows,
            ties={order.delivered.source: found.ties},
            how=_how(order, found, stays=stays),
            key_fingerprint=kept.keys,
            content_fingerprint=kept.contents,
            wrote_fingerprints=kept.new is not None,
            examples=tuple(KeyExample(order.day, kind, key) for kind, keys in found.examples.items() for key in keys),
            cost=_cost(reader, written + sum(file.size for file in files or ()), began),
        )

    def _sides(self, order: RewriteOrder, delivered: DeliveredFiles, reader: KeyReader) -> tuple[Side, Side | None]:
        hashing = Hashing(KeyHasher(key_columns(self.table)), ValueHasher(self.table.value_columns))
        budget = Budget(self.held_bytes)
        uris = [uri for uri, _ in delivered.files]
        constant_id = None if delivered.has_own_ids else delivered.snapshot_id
        newest = Side(reader, hashing, uris, [constant_id] * len(uris), budget, threads=1)
        if order.held is None:
            return newest, None
        uris = [order.held.uri(file) for file in order.held.files]
        ids = [f.min_update_id if f.min_update_id == f.max_update_id else None for f in order.held.files]
        return newest, Side(reader, hashing, uris, ids, budget, threads=1)

    def _stays(self, order: RewriteOrder, found: Changes) -> bool:
        """Where a row says when it changed, a date in which none did is left alone, unless its files are too many."""
        held = order.held
        unchanged = held is not None and order.regime is Regime.BY_VALUE and found.nothing
        return unchanged and not are_scattered(held.files if held else (), self.file_bytes)

    def _sorted_anew(self, order: RewriteOrder, reader: KeyReader, began: float) -> RewrittenDate:
        held = order.held
        assert held
        files = self._write(order, None, reader)
        return RewrittenDate(
            day=order.day,
            files=files,
            rows=sum(file.rows for file in files),
            new_keys=0,
            changed=0,
            survivors=held.survivors,
            ties={},
            how="rows sorted anew",
            key_fingerprint=held.key_fingerprint,
            content_fingerprint=held.content_fingerprint,
            wrote_fingerprints=False,
            examples=(),
            cost=_cost(reader, sum(file.size for file in files), began),
        )

    def _write(self, order: RewriteOrder, found: Changes | None, reader: KeyReader) -> tuple[DataFile, ...]:
        """Delivered rows first: they are few as a rule, and are sorted in among the parent's first."""
        files = SortedFiles(self.table, self.data_uri, order.day, "rewritten", self.file_bytes)
        sources = []
        if found and order.delivered:
            for number, (uri, rows) in enumerate(order.delivered.files):
                if found.taken is None:
                    surplus = found.surplus.get(number, _NO_ROWS)
                    sources.append(RowSource(uri, rows, _NO_ROWS, surplus, order.delivered.snapshot_id + 1))
                elif number in found.taken:
                    sources.append(RowSource(uri, rows, found.taken[number], _NO_ROWS, None))
        if order.held:
            for number, file in enumerate(order.held.files):
                removed = found.removed.get(number, _NO_ROWS) if found else _NO_ROWS
                sources.append(RowSource(order.held.uri(file), file.rows, _NO_ROWS, removed, file.max_update_id + 1))
        for source in sources:
            for rows_read in read_rows(reader, source):
                files.add(rows_read)
        return files.close()

    def _fingerprint_uri(self, order: RewriteOrder) -> str:
        return storage.join(self.data_uri, stored.path_of(order.day))


@dataclass(frozen=True)
class _Kept:
    """Fingerprints for the next publish, as the manifest names them; `new` where they are to be written."""

    keys: str | None
    contents: str | None
    new: stored.StoredFingerprints | None


def _fingerprints_to_keep(order: RewriteOrder, found: Changes, files: tuple[DataFile, ...]) -> _Kept:
    assert order.delivered
    held, snapshot_id = order.held, order.delivered.snapshot_id
    if order.regime is Regime.LATE and held:
        # Rows of the highest update_id stay as they are, but for a delivery of that very id, which joins them.
        below = snapshot_id < held.max_update_id
        return _Kept(held.key_fingerprint, held.content_fingerprint, None) if below else _NONE
    # Rows of an existing table have update ids of their own, and no parent.
    newest_id = snapshot_id if held else max(file.max_update_id for file in files)
    new = stored.StoredFingerprints(newest_id, found.fingerprints)
    same = order.regime is Regime.BY_VALUE and found.carried and not found.open_buckets
    return _Kept(found.fingerprints.digest(), found.fingerprints.contents_digest(), None if same else new)


def _how(order: RewriteOrder, found: Changes, *, stays: bool) -> str:
    if order.held is None:
        return "the parent has no row of this date"
    if found.carried and not found.open_buckets:
        how = "same keys and values as in the last snapshot: the parent's rows were not compared"
    elif found.carried:
        how = f"keys and values compared in {found.open_buckets} of {found.buckets} buckets"
    else:
        how = "all keys compared"
    if stays:
        return f"{how}; no row changed, so the parent's files are kept"
    is_scattered = found.nothing and order.regime is Regime.BY_VALUE
    return f"{how}; [{len(order.held.files)}] files become few" if is_scattered else how


def _cost(reader: KeyReader, written: int, began: float) -> DateCost:
    return DateCost(reader.bytes_read, written, round(time.monotonic() - began, 3))


_NO_ROWS = np.zeros(0, dtype=np.int64)
_NONE = _Kept(None, None, None)
