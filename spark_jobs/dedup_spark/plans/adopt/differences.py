"""Finds what a date's newest delivery changes: survivors, new keys, changed values and duplicate keys.

The parent's rows of the date are its base (the rows with the date's highest update_id) and its survivors, whose keys
the base lacks. The sketches of base and deliveries are a chain, whose steps tell the rows that differ. If a row is
packed in its words, these are the rows themselves, and only survivors and possible duplicates are looked up in files.
If rows are hashes, or if a delivery has duplicate keys, the rows of the keys that differ are read. If the sketches do
not tell, or if it is asked for, all rows are read. The rows are then compared in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE
from dedup_spark.arrays import EMPTY_U64, U64Array
from dedup_spark.comparison.changed_rows import find_changed_rows
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates, find_duplicates, resolve_duplicates, with_codes
from dedup_spark.comparison.key_comparison import diff_keys, indices_of
from dedup_spark.comparison.packed_keys import pack_keys
from dedup_spark.comparison.ranged_rows import RangedRows
from dedup_spark.comparison.selected_rows import RowSelector, SelectedRows, concat_rows, every_row, take_rows
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.adopt.comparison_inputs import ComparisonInputs, DeliveredSketches
from dedup_spark.plans.adopt.diff_result import DiffResult
from dedup_spark.plans.adopt.surviving_rows import find_survivors
from dedup_spark.sketch.chain import KeyVersions, peel_chain
from dedup_spark.sketch.sketch import Difference, Sketch


@dataclass(frozen=True)
class Limits:
    """Limits the memory of one date: how many rows are compared at a time, and how many codes are sorted at a time."""

    rows: int
    codes: int


# A row takes about 100 bytes in memory, a code 8.
DEFAULT_LIMITS = Limits(rows=2 << 20, codes=32 << 20)


class RowsToCompare(NamedTuple):
    """All rows of some keys. `others`: the parent's rows if there is a parent, then those of older deliveries.

    Each of `others` has its source number.
    """

    newest: SelectedRows
    others: list[tuple[int, SelectedRows]]


class _Link(NamedTuple):
    """A set of rows of the date: the parent's base or a delivery."""

    update_id: int
    source: int
    sketch: Sketch


def find_differences(
    inputs: ComparisonInputs, delivered: DeliveredSketches, *, exact: bool, limits: Limits
) -> DiffResult:
    """Compare the inputs of a date.

    `delivered`: the sketches of the deliveries. That of the newest becomes the sketch of all rows that will have its
    snapshot id, each key once. `exact`: compare all rows themselves, whatever the sketches say. Raises
    TooManyDuplicates.
    """
    diff = DiffResult()
    if inputs.parent is None:
        for resolved in find_duplicates(inputs.newest, inputs.columns, delivered.newest.rows, limits.codes):
            diff.add_duplicates(resolved)
        diff.new_keys = delivered.newest.rows - diff.surplus_rows
    if inputs.parent or inputs.older:
        links = _links(inputs, delivered)
        steps = None if exact else peel_chain([link.sketch for link in links])
        diff.differing = None if steps is None else sum(map(len, steps))
        decoded = _decoded(inputs, links, steps, diff) if steps and diff.differing else None
        if decoded:
            diff.is_decoded = True
            _compare(inputs, decoded, diff)
        elif steps is None:
            _compare_in_ranges(inputs, every_row, delivered.rows + inputs.parent_rows, limits, diff)
        else:
            _compare_selected(inputs, steps, limits, diff)
    for words in diff.surplus_words:
        delivered.newest.remove(words)
    for words in diff.same_id_words:
        delivered.newest.add(words)
    return diff


def _links(inputs: ComparisonInputs, delivered: DeliveredSketches) -> list[_Link]:
    """The chain: base and deliveries in ascending precedence."""
    links = [_Link(inputs.newest_id, inputs.newest_source, delivered.newest)]
    for (source, update_id, _), sketch in zip(inputs.older, delivered.older, strict=True):
        links.append(_Link(update_id, source, sketch))
    if inputs.base and inputs.base_id is not None:
        links.append(_Link(inputs.base_id, PARENT_SOURCE, inputs.base))
    return sorted(links, key=lambda link: link[:2])


def _decoded(
    inputs: ComparisonInputs, links: Sequence[_Link], steps: Sequence[Difference], diff: DiffResult
) -> RowsToCompare | None:
    """Return the rows of the keys that differ, from the sketches; None if rows are hashes or a delivery has duplicates.

    The parent's survivors are read.
    """
    if not inputs.encoder.is_packed or diff.surplus:
        return None
    versions = KeyVersions.of_steps(inputs.encoder, steps)
    if versions is None:
        return None
    found: dict[int, SelectedRows] = {}
    for number, link in enumerate(links):
        reader, is_parent = inputs.reader(link.source), link.source == PARENT_SOURCE
        if not is_parent and reader.has_repeated(versions.suspects[number]):
            return None
        words = versions.words_of(number)
        columns, key_count = inputs.encoder.columns(words), len(inputs.columns)
        ids = np.full(words.shape[1], link.update_id)
        rows = reader.rows(columns[:key_count], columns[key_count:], ids)
        found[link.source] = _with_survivors(inputs, rows, versions.absent_codes(number)) if is_parent else rows
    return RowsToCompare(found.pop(inputs.newest_source), sorted(found.items(), key=lambda item: item[0]))


def _with_survivors(inputs: ComparisonInputs, base: SelectedRows, codes: U64Array) -> SelectedRows:
    """Rows of the base, and those survivors of the parent whose keys have one of these codes, which are sorted."""
    if not len(codes) or not inputs.survivor_files:
        return base
    rows = inputs.reader(PARENT_SOURCE).select(with_codes(codes), file_numbers=inputs.survivor_files)
    return concat_rows([base, rows.take(np.flatnonzero(rows.update_ids != inputs.base_id))])


def _compare_selected(inputs: ComparisonInputs, steps: Sequence[Difference], limits: Limits, diff: DiffResult) -> None:
    """Read and compare the rows of all keys that differ in one of the steps."""
    codes = np.unique(np.concatenate([EMPTY_U64, *(inputs.encoder.codes_of(step.words) for step in steps)]))
    selector = with_codes(codes)
    if len(codes):
        _compare_in_ranges(inputs, selector, len(codes) * (2 + len(inputs.older)), limits, diff)
    if inputs.parent is None:
        # Of a key that was not compared, each older delivery has as many rows as the newest, and as many surplus rows.
        surplus = sum(len(rows) - len(selector(rows.codes)) for rows in diff.surplus)
        for source, _, _ in inputs.older:
            diff.older_surplus_rows[source] += surplus


def _compare_in_ranges(
    inputs: ComparisonInputs, selector: RowSelector, expected_rows: int, limits: Limits, diff: DiffResult
) -> None:
    """Read the selected rows of all inputs once, and compare them range by range. `expected_rows`: about their number.

    With older deliveries the sketches take more memory besides the rows. Half as many rows at a time keep the worker of
    a large date near 600 MiB.
    """
    range_count = expected_rows // (limits.rows // 2 if inputs.older else limits.rows) + 1
    newest, others = RangedRows(range_count), []
    inputs.newest.select_into(newest, selector)
    for source in (*([PARENT_SOURCE] if inputs.parent else []), *(number for number, _, _ in inputs.older)):
        rows = RangedRows(range_count)
        inputs.reader(source).select_into(rows, selector)
        others.append((source, rows))
    compare, parts = _RangeComparison(replace(inputs, base=None, parts=None), newest, others), inputs.parts
    numbers = range(range_count)
    for outcome in parts.map(compare, numbers, "compare rows") if parts else map(compare, numbers):
        if isinstance(outcome, TooManyDuplicates):
            raise outcome
        diff.add(outcome)


@dataclass(frozen=True)
class _RangeComparison:
    """Compares the rows of one range.

    TooManyDuplicates is returned, not raised, because Spark would repeat a task that raises it.
    """

    inputs: ComparisonInputs
    newest: RangedRows
    others: list[tuple[int, RangedRows]]

    def __call__(self, number: int) -> DiffResult | TooManyDuplicates:
        diff = DiffResult()
        others = [(source, rows.of_range(number)) for source, rows in self.others]
        try:
            _compare(self.inputs, RowsToCompare(self.newest.of_range(number), others), diff)
        except TooManyDuplicates as error:
            return error
        return diff


def _compare(inputs: ComparisonInputs, rows: RowsToCompare, diff: DiffResult) -> None:
    """Add to `diff` what the rows of some keys tell. Without a parent, the newest delivery's duplicates are known."""
    newest, others = rows
    keys, *other_keys = pack_keys(inputs.columns, [newest.key_columns, *(other.key_columns for _, other in others)])
    compared = diff_keys(keys, np.concatenate([EMPTY_U64, *other_keys]), EXAMPLES_PER_DATE)
    if inputs.parent and len(compared.surplus):
        resolved = resolve_duplicates(inputs.newest, newest, keys, np.unique(compared.surplus))
        diff.add_duplicates(resolved)
        newest, keys = resolved.retained, resolved.keys
    if inputs.parent:
        missing = diff_keys(keys, other_keys[0], 0).missing if inputs.older else compared.missing
        count, indices = find_changed_rows(newest, others[0][1], other_keys[0], missing, EXAMPLES_PER_DATE)
        diff.changed += count
        if len(indices) and len(diff.changed_examples) < EXAMPLES_PER_DATE:
            diff.changed_examples.append(take_rows(others[0][1].key_columns, indices))
    if inputs.older:
        _count_new(inputs, [newest, *(other for _, other in others)], [keys, *other_keys], diff)
    else:
        diff.new_keys += compared.added_count
        _add_new_examples(newest, keys, compared.added_sample, diff)
    find_survivors(inputs, others, other_keys, compared.missing, diff)


def _count_new(
    inputs: ComparisonInputs, selected: Sequence[SelectedRows], keys: Sequence[U64Array], diff: DiffResult
) -> None:
    """Count the keys of all deliveries that the parent lacks.

    Without a parent, the newest delivery's keys have been counted before, so only other keys are counted.
    """
    first_older = 2 if inputs.parent else 1
    delivered = [0, *range(first_older, len(keys))]
    excluded_keys = keys[1] if inputs.parent else keys[0]
    counted_keys = np.concatenate(
        [keys[number] for number in (delivered if inputs.parent else delivered[1:])] or [EMPTY_U64]
    )
    compared = diff_keys(counted_keys, excluded_keys, EXAMPLES_PER_DATE)
    diff.new_keys += compared.added_count
    for number in delivered:
        _add_new_examples(selected[number], keys[number], compared.added_sample, diff)


def _add_new_examples(rows: SelectedRows, keys: U64Array, new_keys: U64Array, diff: DiffResult) -> None:
    indices = indices_of(keys, new_keys)[:EXAMPLES_PER_DATE]
    if len(indices) and len(diff.new_examples) < EXAMPLES_PER_DATE:
        diff.new_examples.append(take_rows(rows.key_columns, indices))
