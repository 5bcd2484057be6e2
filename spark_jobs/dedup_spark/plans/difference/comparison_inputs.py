"""Opens the inputs of one date's comparison, and reads or computes the sketch of the parent's base."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.table import Absent, Column
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.row_encoders import encoders, wide_encoder
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.parent import PARENT_SOURCE, ParentDate
from dedup_spark.plans.delivered_date import DeliveredDate, expected_rows
from dedup_spark.plans.difference.compared_date import ComparedDate, MergePolicy
from dedup_spark.sketch.row_words import OutOfSpan, RowEncoder
from dedup_spark.sketch.sketch import Sketch, bits_for

# The most bytes of key codes that a task caches between two passes over the files of a date.
_KEY_CACHE_BYTES = 128 << 20


@dataclass(frozen=True)
class ComparisonInputs:
    """The deliveries and the parent of one date, opened for comparison.

    `base_id`: the highest update_id of the parent's rows. The rows that have it are the parent's base, all others are
    survivors. `base_files`, `survivor_files`: the numbers of the files that have such rows. With policy BY_VALUE the
    base are the rows of the date's previous delivery, as it had them. `newest_id`: the snapshot id of the newest
    delivery.
    `older`: the source number (from 1; the parent is 0), the snapshot id and the reader of each older delivery, in
    ascending precedence. Sketches have `2**bits` cells in each table; that of the base may have another number if it
    was stored (`base_was_stored`). Without a parent, `parent`, `base` and `base_id` are None. `base` is None, too, if
    sketches do not count.
    `deletes`: the date gets only rows whose keys the newest delivery has.
    """

    policy: MergePolicy
    encoder: RowEncoder
    bits: int
    newest: KeySource
    older: tuple[tuple[int, int, KeySource], ...]
    parent: KeySource | None
    parent_rows: int
    base: Sketch | None
    base_id: int | None
    newest_id: int
    base_files: tuple[int, ...]
    survivor_files: tuple[int, ...]
    base_was_stored: bool
    deletes: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        """The key columns."""
        return self.encoder.keys

    @property
    def newest_source(self) -> int:
        """The source number of the newest delivery."""
        return PARENT_SOURCE + 1 + len(self.older)

    @property
    def sources(self) -> list[tuple[int, KeySource]]:
        """The readers of all sources, by source number, ascending."""
        parent = [(PARENT_SOURCE, self.parent)] if self.parent else []
        return [*parent, *((number, reader) for number, _, reader in self.older), (self.newest_source, self.newest)]

    def reader(self, source: int) -> KeySource:
        """The reader of the source with this number."""
        return dict(self.sources)[source]


@dataclass(frozen=True)
class DeliveredSketches:
    """Sketches of the deliveries of a date, of all their rows. `older`: in ascending precedence."""

    newest: Sketch
    older: tuple[Sketch, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all deliveries."""
        return self.newest.rows + sum(sketch.rows for sketch in self.older)


@dataclass(frozen=True)
class InputOpener:
    """Opens the inputs of one date.

    `exact`: sketches are not compared.
    """

    task: ComparedDate
    reader: KeyReader
    seed: Seed
    exact: bool

    def open(self) -> tuple[ComparisonInputs, DeliveredSketches]:
        """Read the deliveries' files, and return the inputs and the deliveries' sketches.

        If no stored sketch of the parent's base can be used, this reads its rows, unless `exact` or the policy is
        BY_VALUE. Raises what the reader of a damaged file raises.
        """
        parent, deliveries = self.task.parent, self.task.deliveries
        wide = wide_encoder(self.reader, self.seed)
        stored = None
        if parent and not self.exact:
            stored = stored_base(parent, wide, self.task.policy, deletes=self._deletes)
        uris = [file.uri for delivered in deliveries for file in delivered.files]
        uris += [parent.uri(file) for file in parent.files] if parent else []
        for encoder in encoders(self.reader, self.seed, stored, uris):
            try:
                inputs = self._open(encoder, stored if stored and stored.encoder == encoder else None)
                newest, older = inputs.newest.sketch(inputs.bits), [s.sketch(inputs.bits) for _, _, s in inputs.older]
                return inputs, DeliveredSketches(newest, tuple(older))
            except OutOfSpan:
                continue
        raise AssertionError("no encoder took all rows")

    def _open(self, encoder: RowEncoder, stored: Sketch | None) -> ComparisonInputs:
        parent, older = self.task.parent, self.task.older
        rows = expected_rows(self.task.newest, parent)
        bits = bits_for(rows, parent.differing_rows if parent else 0, encoder.word_count, len(older))
        base_id = parent.entry.max_update_id if parent else None
        parent_source, base, all_files = None, stored, tuple(enumerate(parent.files if parent else ()))
        base_files = tuple(number for number, file in all_files if file.max_update_id == base_id)
        if parent:
            uris = [parent.uri(file) for file in parent.files]
            parent_source = KeySource(self.reader, encoder, uris, parent.constant_ids)
            if base is None and not self.exact and self.task.policy is not MergePolicy.BY_VALUE:
                base = parent_source.sketch(bits, file_numbers=base_files, only_id=base_id)
        sources = [(delivered.delivery.snapshot_id, self._delivered(encoder, delivered)) for delivered in older]
        return ComparisonInputs(
            policy=self.task.policy,
            encoder=encoder,
            bits=bits,
            newest=self._delivered(encoder, self.task.newest),
            older=tuple((number, *source) for number, source in enumerate(sources, start=PARENT_SOURCE + 1)),
            parent=parent_source,
            parent_rows=parent.entry.rows if parent else 0,
            base=base,
            base_id=base_id,
            newest_id=self.task.newest.delivery.snapshot_id,
            base_files=base_files,
            survivor_files=tuple(number for number, file in all_files if file.min_update_id != base_id),
            base_was_stored=stored is not None,
            deletes=self._deletes,
        )

    @property
    def _deletes(self) -> bool:
        return self.reader.table.absent_keys is Absent.DELETE

    def _delivered(self, encoder: RowEncoder, delivered: DeliveredDate) -> KeySource:
        uris = [file.uri for file in delivered.files]
        ids = [None if self.task.has_own_ids else delivered.delivery.snapshot_id] * len(uris)
        return KeySource(self.reader, encoder, uris, ids, _KEY_CACHE_BYTES // len(self.task.deliveries))


def stored_base(
    parent: ParentDate, encoder: RowEncoder, policy: MergePolicy = MergePolicy.IN_ORDER, *, deletes: bool = False
) -> Sketch | None:
    """Return the stored sketch of the parent's base; None if there is none, or if it cannot be that of the base."""
    found, base_id = parent.stored_sketch(encoder), parent.entry.max_update_id
    if found and policy is MergePolicy.BY_VALUE:
        # It serves only if the parent has all rows of that delivery, with the same values, and otherwise survivors,
        # which it would not show to be missing.
        serves = found.sketch.rows == parent.entry.rows - parent.entry.survivors
        return found.sketch if serves and not (deletes and parent.entry.survivors) else None
    if found is None or found.update_id != base_id:
        return None
    whole = sum(file.rows for file in parent.files if file.min_update_id == base_id)
    mixed = sum(file.rows for file in parent.files if file.min_update_id < base_id == file.max_update_id)
    return found.sketch if whole <= found.sketch.rows <= whole + mixed else None
