"""The sides of one date's comparison, and the fingerprints that the last publish left of its base."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import Column, TableContract
from dedup_spark import storage
from dedup_spark.adopt.key_reader import KeyReader
from dedup_spark.adopt.orders import DateOrder, DeliveredDate, StateDate
from dedup_spark.adopt.side import Budget, Hashing, Side
from dedup_spark.fingerprints import stored
from dedup_spark.fingerprints.buckets import LEAST_BITS, BucketFingerprints, bits_for
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import WORD_BYTES, key_columns
from dedup_spark.fingerprints.value_hashing import ValueHasher

# Carried fingerprints with so many fewer bits than wanted would open too many buckets: they are computed anew.
_COARSER_BITS = 3
# Holding less than this part of the keys saves too little of the second pass for the memory it takes.
_LEAST_HELD = 0.25


@dataclass(frozen=True)
class DateSides:
    """`older` are (source number, side), ascending in precedence; `base` are the fingerprints of the parent's base.

    `bits` is the number of buckets that the newest delivery's fingerprints are made with. `carried` says whether the
    base's fingerprints were at hand. `survivor_rows` are the parent's rows beside its base.
    """

    columns: tuple[Column, ...]
    hashing: Hashing
    bits: int
    newest: Side
    older: tuple[tuple[int, Side], ...]
    state: Side | None
    base: BucketFingerprints | None
    base_id: int | None
    survivor_rows: int
    carried: bool

    def fingerprints(self) -> DeliveredFingerprints:
        """Reads the deliveries' files. Raises whatever a damaged one makes of its reader."""
        newest = self.newest.fingerprints(self.bits)
        return DeliveredFingerprints(newest, tuple(side.fingerprints(self.bits) for _, side in self.older))


@dataclass(frozen=True)
class DeliveredFingerprints:
    """Of all rows of the deliveries; `older` in the order of the sides."""

    newest: BucketFingerprints
    older: tuple[BucketFingerprints, ...]


def open_sides(
    table: TableContract, order: DateOrder, reader: KeyReader, held_bytes: int, rows: int, *, compare_values: bool
) -> DateSides:
    """Reads the parent's fingerprints, or its key columns when there are none that fit.

    `rows` are about those of the newest delivery: they choose the number of buckets.
    """
    columns = key_columns(table)
    hashing = Hashing(KeyHasher(columns), ValueHasher(table.value_columns) if compare_values else None)
    budget = Budget(held_bytes if held_bytes >= _LEAST_HELD * _key_bytes(columns, rows) else 0)
    make = partial(_delivered, reader=reader, hashing=hashing, budget=budget, threads=order.threads)
    state = order.state
    bits = bits_for(rows, state.differing_share if state else None)
    state_side = _state_side(state, reader, hashing, budget, order.threads) if state else None
    base, carried = _base(order, columns, state_side, bits, with_values=compare_values)
    return DateSides(
        columns=columns,
        hashing=hashing,
        bits=bits,
        newest=make(order.newest),
        older=tuple((part.source, make(part)) for part in order.older),
        state=state_side,
        base=base,
        base_id=state.base_id if state else None,
        survivor_rows=state.rows - base.rows if state and base else 0,
        carried=carried,
    )


def _key_bytes(columns: tuple[Column, ...], rows: int) -> int:
    """About what decoded keys and a hash of each take; texts may take more."""
    return rows * (len(columns) + 1) * WORD_BYTES


def _delivered(
    part: DeliveredDate,
    *,
    reader: KeyReader,
    hashing: Hashing,
    budget: Budget,
    threads: int,
) -> Side:
    uris = [file.uri for file in part.files]
    ids = [part.delivery.snapshot_id] * len(uris)
    return Side(reader, hashing, uris, ids, budget, threads)


def _state_side(state: StateDate, reader: KeyReader, hashing: Hashing, budget: Budget, threads: int) -> Side:
    uris = [storage.join(state.data_uri, file.path) for file in state.files]
    ids = [file.min_update_id if file.min_update_id == file.max_update_id else None for file in state.files]
    return Side(reader, hashing, uris, ids, budget, threads)


def _base(
    order: DateOrder, columns: tuple[Column, ...], side: Side | None, bits: int, *, with_values: bool
) -> tuple[BucketFingerprints | None, bool]:
    state = order.state
    if state is None or side is None:
        return None, False
    carried = _carried(order, state, columns)
    # Those of a delivery with repeated keys say nothing of values.
    tells_values = carried is not None and carried.contents is not None
    if carried and carried.bits >= max(bits - _COARSER_BITS, LEAST_BITS) and (tells_values or not with_values):
        return carried, True
    holding = [number for number, file in enumerate(state.files) if file.max_update_id == state.base_id]
    return side.fingerprints(bits, files=holding, only_id=state.base_id), False


def _carried(order: DateOrder, state: StateDate, columns: tuple[Column, ...]) -> BucketFingerprints | None:
    if state.key_fingerprint is None:
        return None
    found = stored.read(storage.join(state.data_uri, stored.path_of(order.day)), columns, state.key_fingerprint)
    if found is None or found.update_id != state.base_id:
        return None
    least, most = _base_rows(state.files, state.base_id)
    return found.buckets if least <= found.buckets.rows <= most else None


def _base_rows(files: tuple[DataFile, ...], base_id: int) -> tuple[int, int]:
    """How many rows of the base the file list allows: files of one update_id say it exactly."""
    whole = sum(file.rows for file in files if file.min_update_id == base_id)
    mixed = sum(file.rows for file in files if file.min_update_id < base_id == file.max_update_id)
    return whole, whole + mixed
