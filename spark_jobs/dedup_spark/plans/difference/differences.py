"""Finds what the deliveries of a date change: survivors, new keys, changed values and duplicate keys.

The parent's rows of the date are its base (the rows with the date's highest update_id) and its survivors, whose keys
the base lacks. The sketches of base and deliveries are a chain, whose steps tell the rows that differ. If a row is
packed in its words, these are the rows themselves, and only survivors and possible duplicates are looked up in files.
If rows are hashes, or if the parent's rows have other update_ids than its base, the rows of the keys that differ are
read. If the sketches do not tell, or if it is asked for, all rows are read. The rows are then compared in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dedup_spark.arrays import U64Array
from dedup_spark.comparison.duplicate_keys import (
    ResolvedDuplicates,
    find_duplicates,
    resolve_duplicates,
    with_codes,
)
from dedup_spark.comparison.key_comparison import repeated_in
from dedup_spark.comparison.ranged_rows import RangedRows
from dedup_spark.comparison.selected_rows import (
    RowSelector,
    SelectedRows,
    concat_rows,
    every_row,
    without_rows,
)
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.difference.compared_date import MergePolicy
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs, DeliveredSketches
from dedup_spark.plans.difference.diff_result import DiffResult
from dedup_spark.plans.difference.winning_rows import find_winners
from dedup_spark.sketch.chain import KeyVersions, StuckStep, peel_chain
from dedup_spark.sketch.sketch import Difference, Sketch


@dataclass(frozen=True)
class Limits:
    """Limits the memory of one date: how many rows are compared at a time, and how many codes are sorted at a time."""

    rows: int
    codes: int


# A row takes about 100 bytes in memory, a code 8.
LIMITS = Limits(rows=2 << 20, codes=32 << 20)
# If a larger share of the cells is left, too many rows differ, and duplicate keys are not the reason.
_MOST_CELLS_LEFT = 1 / 64
# If the cells that are left have a larger share of the rows, all rows are compared.
_LARGEST_SHARE_LEFT = 1 / 4


class _Link(NamedTuple):
    """A set of rows of the date: the parent's base or a delivery."""

    update_id: int
    source: int
    sketch: Sketch


def find_differences(inputs: ComparisonInputs, delivered: DeliveredSketches, *, exact: bool) -> DiffResult:
    """Compare the inputs of a date.

    `delivered`: the sketches of the deliveries. That of the newest becomes the sketch of all rows that will have its
    snapshot id, each key once. `exact`: compare all rows themselves, whatever the sketches say. Raises
    TooManyDuplicates.
    """
    diff, links = DiffResult(), _links(inputs, delivered)
    if inputs.parent is None:
        for resolved in find_duplicates(inputs.newest, delivered.newest.rows, LIMITS.codes):
            _add_surplus(links[-1], resolved, diff)
        diff.new_keys = delivered.newest.rows
    if inputs.parent or inputs.older:
        has_sketches = not exact and (inputs.parent is None or inputs.base is not None)
        steps = _steps(inputs, links, diff) if has_sketches else None
        _compare_steps(inputs, links, steps, delivered.rows + inputs.parent_rows, diff)
    for words in diff.surplus_words:
        delivered.newest.remove(words)
    for words in diff.same_id_words:
        delivered.newest.add(words)
    return diff


def _compare_steps(
    inputs: ComparisonInputs,
    links: Sequence[_Link],
    steps: list[Difference] | StuckStep | None,
    row_count: int,
    diff: DiffResult,
) -> None:
    """Compare the rows of the keys that differ in these steps, or all rows. `row_count`: of all inputs."""
    if isinstance(steps, list):
        diff.differing = sum(map(len, steps))
        if not diff.differing:
            return
        diff.is_decoded = inputs.encoder.is_packed and inputs.policy is not MergePolicy.BY_VALUE
        if diff.is_decoded:
            _compare(inputs, _decoded(inputs, links, steps), diff)
            return
        codes: U64Array | None = np.unique(np.concatenate([inputs.encoder.codes_of(step.words) for step in steps]))
    else:
        codes = _codes_left(inputs, links, steps) if steps else None
        diff.differing = None if codes is None else len(codes)
    if codes is None:
        _compare_in_ranges(inputs, every_row, row_count, diff)
    else:
        _compare_in_ranges(inputs, with_codes(codes), len(codes) * (len(links) + 1), diff)


def _links(inputs: ComparisonInputs, delivered: DeliveredSketches) -> list[_Link]:
    """The chain: base and deliveries in ascending precedence."""
    links = [_Link(inputs.newest_id, inputs.newest_source, delivered.newest)]
    for (source, update_id, _), sketch in zip(inputs.older, delivered.older, strict=True):
        links.append(_Link(update_id, source, sketch))
    if inputs.base and inputs.base_id is not None:
        links.append(_Link(inputs.base_id, PARENT_SOURCE, inputs.base))
    return sorted(links, key=lambda link: link[:2])


def _steps(inputs: ComparisonInputs, links: Sequence[_Link], diff: DiffResult) -> list[Difference] | StuckStep:
    """Return the steps of the chain, or that of which the sketches do not tell all rows.

    Copies of a row cannot be told apart, and a key that a delivery has twice looks like a new one. So duplicate keys of
    deliveries that hinder the steps are looked up, and their surplus rows are taken out of the sketches and added to
    `diff`. Then each link has each key once. Raises TooManyDuplicates.
    """
    while True:
        steps = peel_chain([link.sketch for link in links])
        candidates = _repeated_codes(inputs, links, steps)
        found = [_remove_duplicates(inputs, link, codes, diff) for link, codes in candidates]
        if not any(found):
            return steps


def _repeated_codes(
    inputs: ComparisonInputs, links: Sequence[_Link], steps: list[Difference] | StuckStep
) -> Iterator[tuple[_Link, U64Array]]:
    """Yield deliveries, each with the codes of its rows that may be duplicates and hinder the steps.

    Hashed rows of keys that differ are read anyway, so their duplicates need not be looked up before.
    """
    if isinstance(steps, StuckStep):
        if steps.remainder.cells.is_left.mean() > _MOST_CELLS_LEFT:
            return
        for link in links[steps.number : steps.number + 2]:
            if link.source != PARENT_SOURCE:
                words = inputs.reader(link.source).words_in(steps.remainder.cells)
                yield link, repeated_in(np.sort(inputs.encoder.codes_of(words)))
    elif inputs.encoder.is_packed and any(map(len, steps)):
        suspects = KeyVersions.of_steps(inputs.encoder, steps).suspects
        for link, codes in zip(links, suspects, strict=True):
            if link.source != PARENT_SOURCE:
                yield link, inputs.reader(link.source).repeated(codes)


def _codes_left(inputs: ComparisonInputs, links: Sequence[_Link], stuck: StuckStep) -> U64Array | None:
    """Return the codes of the keys that differ, and of some others, if the sketches do not tell all rows.

    The rows that they do not tell are among the rows of both links in the cells that are left. None if these are too
    many, or if the links are not two sets of rows that files have.
    """
    remainder, share = stuck.remainder, float(np.prod(stuck.remainder.cells.is_left.mean(axis=1)))
    is_readable = inputs.policy is not MergePolicy.BY_VALUE and len(links) == 2
    if not is_readable or share > _LARGEST_SHARE_LEFT or share * max(link.sketch.rows for link in links) > LIMITS.rows:
        return None
    found = []
    for link in links:
        files, only_id = (inputs.base_files, inputs.base_id) if link.source == PARENT_SOURCE else (None, None)
        found.append(inputs.reader(link.source).words_in(remainder.cells, file_numbers=files, only_id=only_id))
    earlier, later = found
    if not remainder.is_difference_of(later, earlier):
        return None
    return np.unique(inputs.encoder.codes_of(np.concatenate([remainder.told.words, earlier, later], axis=1)))


def _remove_duplicates(inputs: ComparisonInputs, link: _Link, codes: U64Array, diff: DiffResult) -> bool:
    """Take the surplus rows of the keys with these codes out of a delivery's sketch. Return whether there are any."""
    if not len(codes):
        return False
    reader = inputs.reader(link.source)
    resolved = resolve_duplicates(reader, without_rows(reader.select(with_codes(codes)), diff.surplus[link.source]))
    _add_surplus(link, resolved, diff)
    return len(resolved.surplus) > 0


def _add_surplus(link: _Link, resolved: ResolvedDuplicates, diff: DiffResult) -> None:
    if len(resolved.surplus):
        link.sketch.remove(resolved.surplus_words)
        diff.add_surplus(link.source, resolved.surplus)


def _decoded(
    inputs: ComparisonInputs, links: Sequence[_Link], steps: Sequence[Difference]
) -> list[tuple[int, SelectedRows]]:
    """Return the rows of the keys that differ, by source, from the sketches. The parent's survivors are read."""
    versions = KeyVersions.of_steps(inputs.encoder, steps)
    found = []
    for number, link in enumerate(links):
        words = versions.words_of(number)
        columns, key_count = inputs.encoder.columns(words), len(inputs.columns)
        ids = np.full(words.shape[1], link.update_id)
        rows = inputs.reader(link.source).rows(columns[:key_count], columns[key_count:], ids)
        if link.source == PARENT_SOURCE:
            rows = _with_survivors(inputs, rows, versions.absent_codes(number))
        found.append((link.source, rows))
    return sorted(found, key=lambda item: item[0])


def _with_survivors(inputs: ComparisonInputs, base: SelectedRows, codes: U64Array) -> SelectedRows:
    """Rows of the base, and those survivors of the parent whose keys have one of these codes, which are sorted."""
    if not len(codes) or not inputs.survivor_files:
        return base
    rows = inputs.reader(PARENT_SOURCE).select(with_codes(codes), file_numbers=inputs.survivor_files)
    return concat_rows([base, rows.take(np.flatnonzero(rows.update_ids != inputs.base_id))])


def _compare_in_ranges(inputs: ComparisonInputs, selector: RowSelector, expected_rows: int, diff: DiffResult) -> None:
    """Read the selected rows of all inputs once, and compare them range by range. `expected_rows`: about their number.

    Surplus rows that `diff` has already are left out.

    With older deliveries the sketches take more memory besides the rows. Half as many rows at a time keep the worker of
    a large date near 600 MiB.
    """
    range_count = expected_rows // (LIMITS.rows // 2 if inputs.older else LIMITS.rows) + 1
    selected = []
    for source, reader in inputs.sources:
        rows = RangedRows(range_count)
        reader.select_into(rows, selector)
        selected.append((source, rows))
    inputs = replace(inputs, base=None)  # its cells are not needed any more, and take memory
    known = {source: tuple(rows) for source, rows in diff.surplus.items()}
    for number in range(range_count):
        rows_of_range = [
            (source, without_rows(some.of_range(number), known.get(source, ()))) for source, some in selected
        ]
        _compare(inputs, rows_of_range, diff)


def _compare(inputs: ComparisonInputs, rows: Sequence[tuple[int, SelectedRows]], diff: DiffResult) -> None:
    """Add to `diff` what all rows of some keys tell. `rows`: by source number, ascending. Raises TooManyDuplicates."""
    unique = []
    for source, some in rows:
        if source != PARENT_SOURCE:
            resolved = resolve_duplicates(inputs.reader(source), some)
            if len(resolved.surplus):
                diff.add_surplus(source, resolved.surplus)
                diff.surplus_words += [resolved.surplus_words] if source == inputs.newest_source else []
            some = resolved.retained
        unique.append((source, some))
    find_winners(inputs, unique, diff)
