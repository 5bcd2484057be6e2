"""Opens the inputs of one date's comparison: chooses how rows become words, and makes or reads a sketch of each input.

Rows become as few words as the ranges of their numbers allow. The ranges come from the parent's stored sketch, or else
from the files' footers. A footer may be wrong, and later rows may have other numbers. So an encoder that meets a number
outside its ranges is replaced by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pyarrow.parquet as pq

from dedup_clone.contract.table import Absent
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.landing.cluster_overlap import block_ranges
from dedup_spark.parent import PARENT_SOURCE, ParentDate
from dedup_spark.plans.date_task import DateTask, MergePolicy
from dedup_spark.plans.delivered_date import DeliveredDate
from dedup_spark.sketch import stored
from dedup_spark.sketch.row_words import OutOfSpan, RowEncoder
from dedup_spark.sketch.sketch import Sketch, bits_for

# The most bytes of key codes that a task caches between two passes over the files of a date.
_KEY_CACHE_BYTES = 128 << 20
# At most this many footers are read to find the ranges of numbers in all files, or to estimate the rows.
_MAX_FOOTERS = 32
# If the larger of delivery and parent has at most this many times the bytes of the other, both are taken to have the
# same number of rows.
_SIMILAR_SIZE_FACTOR = 2

_File = TypeVar("_File")


class SketchForm(NamedTuple):
    """How the rows of a date are summed up: how they become words, and the bits of a cell's number."""

    encoder: RowEncoder
    bits: int


@dataclass(frozen=True)
class Link:
    """The rows of the parent, or of a delivery.

    `source`: PARENT_SOURCE, or the number of the delivery, from 1, the oldest first. `update_id`: the snapshot id of
    the delivery, or the highest update_id of the parent's rows. The parent's rows that have it are its base, all others
    are survivors. `sketch`: of the delivery's rows, or of the parent's base; with policy BY_VALUE of the rows of the
    date's previous delivery, as it had them. The parent has none if sketches do not count.
    """

    source: int
    update_id: int
    reader: KeySource
    sketch: Sketch | None


@dataclass(frozen=True)
class ComparisonInputs:
    """The parent and the deliveries of one date, opened for comparison.

    `links`: in the order of their source numbers. `base_was_stored`: the sketch of the base was read. `deletes`: the
    date gets only rows whose keys the newest delivery has.
    """

    task: DateTask
    encoder: RowEncoder
    links: tuple[Link, ...]
    base_was_stored: bool
    deletes: bool

    @property
    def newest(self) -> Link:
        return self.links[-1]

    @property
    def parent(self) -> Link | None:
        return self.links[0] if self.task.parent else None

    @property
    def rows(self) -> int:
        """The number of rows of all inputs."""
        parent_rows = self.task.parent.entry.rows if self.task.parent else 0
        return parent_rows + sum(link.sketch.rows for link in self.links if link.sketch and link.source)

    @property
    def newest_sketch(self) -> Sketch:
        assert self.newest.sketch
        return self.newest.sketch


def open_inputs(task: DateTask, reader: KeyReader, seed: Seed, *, exact: bool) -> ComparisonInputs:
    """Read the deliveries' files, and return the inputs with the deliveries' sketches. `exact`: sketches do not count.

    If no stored sketch of the parent's base can be used, this reads its rows, unless `exact` or the policy is BY_VALUE.
    Raises what the reader of a damaged file raises.
    """
    needs_base = not exact and task.policy is not MergePolicy.BY_VALUE
    for encoder, base in _encoders(task, reader, seed, exact=exact):
        try:
            return _open(task, reader, encoder, base, needs_base=needs_base)
        except OutOfSpan:
            continue
    raise AssertionError("no encoder took all rows")


def choose_form(task: DateTask, reader: KeyReader, seed: Seed, *, exact: bool) -> SketchForm:
    """Return the form that `open_inputs` tries first. Raises what the reader of a damaged footer raises."""
    encoder = next(_encoders(task, reader, seed, exact=exact))[0]
    return SketchForm(encoder, _bits(task, encoder, reader))


def sketch_part(part: DeliveredDate, form: SketchForm, reader: KeyReader) -> Sketch | None:
    """Return the sketch of some files of a delivery; None if the encoder does not take all rows.

    Raises what the reader of a damaged file raises.
    """
    try:
        return KeySource(reader, form.encoder, [file.uri for file in part.files]).sketch(form.bits)
    except OutOfSpan:
        return None


def _sum_of_parts(task: DateTask, delivered: DeliveredDate, encoder: RowEncoder) -> Sketch | None:
    """The delivery's sketch, if other tasks have made those of all its rows with this encoder; None otherwise."""
    total = None
    for part in (part for part in task.parts if part.delivery == delivered.delivery):
        found = stored.read(part.uri, encoder, part.digest)
        if found is None or found.sketch.encoder != encoder:
            return None
        total = total or Sketch.empty(encoder, found.sketch.bits)
        total.add_all(found.sketch)
        del found  # before the next one is in memory
    return total if total and total.rows == delivered.rows else None


def _encoders(
    task: DateTask, reader: KeyReader, seed: Seed, *, exact: bool
) -> Iterator[tuple[RowEncoder, Sketch | None]]:
    """Yield the encoders to try until one does not raise OutOfSpan: first that of the parent's stored sketch, with it.

    Raises what the reader of a damaged footer raises.
    """
    parent = task.parent
    if parent and not exact:
        deletes = reader.table.absent_keys is Absent.DELETE
        base = stored_base(parent, wide_encoder(reader, seed), task.policy, deletes=deletes)
        if base:
            yield base.encoder, base
    uris = [file.uri for delivered in task.deliveries for file in delivered.files]
    uris += [parent.uri(file) for file in parent.files] if parent else []
    for encoder in encoders(reader, seed, uris):
        yield encoder, None


def _bits(task: DateTask, encoder: RowEncoder, reader: KeyReader) -> int:
    differing_rows = task.parent.differing_rows if task.parent else 0
    rows, older_deliveries = _expected_rows(task.newest, task.parent, reader), len(task.deliveries) - 1
    return bits_for(rows, differing_rows, encoder.word_count, older_deliveries)


def _expected_rows(delivered: DeliveredDate, parent: ParentDate | None, reader: KeyReader) -> int:
    """Return the rows of the delivery. If not all files have been read, the number is estimated.

    The estimate is the parent's number of rows if both have similar sizes; otherwise it is made from footers. By this
    number the number of cells of a sketch is chosen. With too few cells, the next snapshot could not be told apart.
    """
    if not delivered.unread_files:
        return delivered.rows
    if parent:
        smaller, larger = sorted((delivered.bytes, parent.bytes))
        if larger <= _SIMILAR_SIZE_FACTOR * smaller:
            return parent.entry.rows
    sample = _some(delivered.files)
    sample_rows = sum(int(reader.metadata(file.uri).num_rows) for file in sample)
    return sample_rows * delivered.bytes // max(sum(file.size for file in sample), 1)


def _some(files: Sequence[_File]) -> Sequence[_File]:
    """At most _MAX_FOOTERS of these, from all over the list."""
    return files[:: -(-len(files) // _MAX_FOOTERS) or 1]


def _open(
    task: DateTask, reader: KeyReader, encoder: RowEncoder, base: Sketch | None, *, needs_base: bool
) -> ComparisonInputs:
    """Open the inputs with this encoder. `base`: the stored sketch, if it can be used. Raises OutOfSpan."""
    parent, bits = task.parent, _bits(task, encoder, reader)
    links, was_stored = [], base is not None
    if parent:
        base_id = parent.entry.max_update_id
        source = KeySource(reader, encoder, [parent.uri(file) for file in parent.files])
        if base is None and needs_base:
            base = source.sketch(bits, file_numbers=parent.base_files, only_id=base_id)
        links.append(Link(PARENT_SOURCE, base_id, source, base))
    for number, delivered in enumerate(task.deliveries, start=PARENT_SOURCE + 1):
        uris = [file.uri for file in delivered.files]
        source = KeySource(reader, encoder, uris, _KEY_CACHE_BYTES // len(task.deliveries))
        sketch = _sum_of_parts(task, delivered, encoder) or source.sketch(bits)
        links.append(Link(number, delivered.delivery.snapshot_id, source, sketch))
    return ComparisonInputs(
        task=task,
        encoder=encoder,
        links=tuple(links),
        base_was_stored=was_stored,
        deletes=reader.table.absent_keys is Absent.DELETE,
    )


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


def wide_encoder(reader: KeyReader, seed: Seed) -> RowEncoder:
    """The encoder that takes all rows of the reader's table."""
    return RowEncoder(key_columns(reader.table), reader.table.value_columns, seed)


def encoders(reader: KeyReader, seed: Seed, uris: Sequence[str]) -> Iterator[RowEncoder]:
    """Yield an encoder for the ranges of numbers in these files, if rows can be packed, and one that takes all rows."""
    wide = wide_encoder(reader, seed)
    if wide.has_packable_types:
        footers = [reader.metadata(uri) for uri in _some(uris)]
        yield wide.narrowed({name: found for name in wide.narrowable if (found := _bounds(footers, name))})
    yield wide


def _bounds(footers: Sequence[pq.FileMetaData], column: str) -> tuple[int, int] | None:
    """The lowest and the highest number in the column, as the footers say; None if one of them does not."""
    ranges = [block_ranges(footer, column) for footer in footers]
    blocks = [block for of_file in ranges for block in of_file or ()]
    return (min(low for low, _ in blocks), max(high for _, high in blocks)) if ranges and all(ranges) else None
