"""Plan adopt for one date, from order to outcome. Called on the driver or in a Spark task; holds no Spark objects."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from dedup_clone.contract.manifest import Difference, KeyExample
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.adopt.differences import Limits, find_differences
from dedup_spark.adopt.found import EXAMPLES, Differences
from dedup_spark.adopt.key_reader import KeyReader
from dedup_spark.adopt.mended_files import MendedFiles, write_mended
from dedup_spark.adopt.orders import AdoptedDate, DateCost, DateOrder, DeclinedDate, Outcome
from dedup_spark.adopt.picked import Values
from dedup_spark.adopt.sides import DateSides, DeliveredFingerprints, open_sides
from dedup_spark.adopt.slices import too_many
from dedup_spark.adopt.survivors import rows_of, write_survivors
from dedup_spark.examples import key_texts
from dedup_spark.fingerprints import stored


@dataclass(frozen=True)
class AdoptDate:
    """`held_bytes` of decoded keys are kept between two passes over a file. `exact` trusts no fingerprint.

    `compare_values` counts changed rows, which reads value columns too.
    """

    table: TableContract
    data_uri: str
    exact: bool
    compare_values: bool
    held_bytes: int
    limits: Limits

    @classmethod
    def of(cls, request: DedupRequest, held_bytes: int, limits: Limits) -> Self:
        return cls(request.table, request.data_uri, request.exact, request.compare_values, held_bytes, limits)

    def __call__(self, order: DateOrder) -> Outcome:
        """Writes the date's survivors and fingerprints below the data folder; or declines, for another plan."""
        began, reader = time.monotonic(), KeyReader(self.table)
        sides = self.open(order, reader, order.newest.rows)
        return self.settle(order, sides, sides.fingerprints(), reader, began)

    def open(self, order: DateOrder, reader: KeyReader, rows: int) -> DateSides:
        """`rows` are about those of the newest delivery."""
        return open_sides(self.table, order, reader, self.held_bytes, rows, compare_values=self.compare_values)

    def settle(
        self, order: DateOrder, sides: DateSides, delivered: DeliveredFingerprints, reader: KeyReader, began: float
    ) -> Outcome:
        """Decides by the deliveries' fingerprints; `began` is when the date was, on the monotonic clock."""
        found = find_differences(sides, delivered, exact=self.exact, limits=self.limits)
        if found.uncompared:
            return DeclinedDate(order.day, too_many(found.uncompared), None, _cost(reader, 0, began))
        written = self._write_fingerprints(order, sides, found)
        obstacle = _obstacle(found)
        if obstacle:
            return DeclinedDate(order.day, obstacle, found.fingerprints.digest(), _cost(reader, written, began))
        survivors = write_survivors(order, found, reader, self.data_uri)
        mended = write_mended(order, found, reader, self.data_uri)
        new_files = (*mended.files, *survivors.written)
        return AdoptedDate(
            day=order.day,
            delivery=order.newest.delivery,
            mended=mended.uris,
            files=(*survivors.copied, *new_files),
            new_keys=found.new_keys,
            changed=found.changed if order.state else 0,
            survivors=rows_of([*survivors.copied, *survivors.written]),
            ties={**found.ties, order.newest.source: found.surplus_rows},
            reason=_reason(order, sides, found, self.exact) + _said_of(mended, found),
            key_fingerprint=found.fingerprints.digest(),
            content_fingerprint=found.fingerprints.contents_digest(),
            examples=tuple(self._examples(order, found)),
            cost=_cost(reader, written + sum(file.size for file in new_files), began),
        )

    def _write_fingerprints(self, order: DateOrder, sides: DateSides, found: Differences) -> int:
        kept = stored.StoredFingerprints(order.newest.delivery.snapshot_id, found.fingerprints)
        return stored.write(storage.join(self.data_uri, stored.path_of(order.day)), kept, sides.columns)

    def _examples(self, order: DateOrder, found: Differences) -> Iterable[KeyExample]:
        for difference, samples in (
            (Difference.NEW, found.new_examples),
            (Difference.CHANGED, found.changed_examples),
            (Difference.SURVIVOR, found.survivor_examples),
        ):
            for text in _texts(self.table, samples)[:EXAMPLES]:
                yield KeyExample(order.day, difference, text)


def _texts(table: TableContract, samples: Sequence[Values]) -> list[str]:
    return [text for values in samples for text in key_texts(table, [column.to_pylist() for column in values])]


def _obstacle(found: Differences) -> str | None:
    if found.unknown:
        return f"deliveries hold keys more than once: [{found.unknown}] surplus rows, more than are looked for here"
    return None


def _reason(order: DateOrder, sides: DateSides, found: Differences, exact: bool) -> str:
    if order.state is None:
        return "the parent has no row of this date"
    if exact:
        how = "all keys compared, as asked for"
    elif not found.open_buckets:
        same = "same keys and values as before" if found.changed is not None else "same keys as before"
        return f"{same}: the parent's rows were not read" if sides.carried else same
    else:
        what = "keys" if found.changed is None else "keys and values"
        how = f"{what} compared in {found.open_buckets} of {found.buckets} buckets"
    source = "carried" if sides.carried else "computed"
    return f"{how}, {'by rank' if found.ranked else 'as 64-bit words'}; fingerprints of the parent {source}"


def _said_of(mended: MendedFiles, found: Differences) -> str:
    said = ""
    if found.surplus:
        said += f"; [{found.surplus_rows}] surplus rows of repeated keys left out"
    if mended.cast:
        said += f"; [{mended.cast}] files brought into the written form"
    return f"{said}; [{len(mended.uris)}] files written anew" if said else ""


def _cost(reader: KeyReader, written: int, began: float) -> DateCost:
    return DateCost(reader.bytes_read, written, round(time.monotonic() - began, 3))
