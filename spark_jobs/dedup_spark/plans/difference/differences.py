"""Finds what the deliveries of a date change: survivors, new keys, changed values and duplicate keys.

The parent's rows of the date are its base (the rows with the date's highest update_id) and its survivors, whose keys
the base lacks. The sketches of base and deliveries are a chain, whose steps tell the rows that differ. If a row is
packed in its words, these are the rows themselves, and only survivors and possible duplicates are looked up in files.
If rows are hashes, the rows of the keys that the newest delivery lacks are read. If its rows do not always win, those
of all keys that differ are. If the sketches do not tell, or if it is asked for, all rows are read. The rows are then
compared in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dedup_spark.arrays import U64Array
from dedup_spark.comparison.duplicate_keys import ResolvedDuplicates, find_duplicates, resolve_duplicates
from dedup_spark.comparison.keys import repeated_in, with_codes
from dedup_spark.comparison.selected_rows import (
    RangedRows,
    RowSelector,
    SelectedRows,
    concat_rows,
    every_row,
    without_rows,
)
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.date_task import MergePolicy
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs, Link
from dedup_spark.plans.difference.diff_result import DiffResult, find_winners
from dedup_spark.plans.difference.hashed_rows import MissingKeys, count_hashed, select_survivors
from dedup_spark.sketch.chain import KeyVersions, StuckStep, peel_chain
from dedup_spark.sketch.sketch import Sketch

# How many rows are compared at a time, and how many codes are sorted. A row takes about 100 bytes in memory, a code 8.
ROWS_AT_A_TIME = 2 << 20
CODES_AT_A_TIME = 32 << 20
# If a larger share of the cells is left, too many rows differ, and duplicate keys are not the reason.
_MOST_CELLS_LEFT = 1 / 64
# If the cells that are left have a larger share of the rows, all rows are compared.
_LARGEST_SHARE_LEFT = 1 / 4


def find_differences(inputs: ComparisonInputs, *, exact: bool) -> DiffResult:
    """Compare the inputs of a date.

    The sketch of the newest delivery becomes that of all rows that will have its snapshot id, each key once. `exact`:
    compare all rows themselves, whatever the sketches say. Raises TooManyDuplicates.
    """
    diff = DiffResult()
    if inputs.parent is None:
        for resolved in find_duplicates(inputs.newest.reader, inputs.newest_sketch.rows, CODES_AT_A_TIME):
            _add_surplus(inputs.newest, resolved, diff)
        diff.new_keys = inputs.newest_sketch.rows
    if len(inputs.links) > 1:
        # The chain: base and deliveries in ascending precedence.
        chain = sorted(inputs.links, key=lambda link: (link.update_id, link.source))
        sketches = [link.sketch for link in chain if link.sketch]
        versions = None if exact or len(sketches) < len(chain) else _versions(inputs, chain, sketches, diff)
        if isinstance(versions, KeyVersions):
            _compare_versions(inputs, chain, versions, diff)
        else:
            codes = _codes_left(inputs, chain, versions) if versions else None
            diff.differing = None if codes is None else len(codes)
            _compare_rows(inputs, codes, diff)
    return diff


def _compare_versions(inputs: ComparisonInputs, links: Sequence[Link], versions: KeyVersions, diff: DiffResult) -> None:
    """Compare the rows of the keys that differ. `links`: the chain."""
    diff.differing = versions.words.shape[1]
    if not diff.differing:
        return
    diff.is_decoded = inputs.encoder.is_packed and inputs.task.policy is not MergePolicy.BY_VALUE
    if diff.is_decoded:
        find_winners(inputs, _decoded(inputs, links, versions), diff)
    elif inputs.task.policy is MergePolicy.IN_ORDER:
        missing = count_hashed(inputs, links, versions, diff)
        codes = missing.codes()
        if len(codes):
            _compare_in_ranges(inputs, with_codes(codes), len(codes) * len(links), diff, missing)
    else:
        _compare_rows(inputs, np.unique(versions.codes), diff)


def _compare_rows(inputs: ComparisonInputs, codes: U64Array | None, diff: DiffResult) -> None:
    """Read and compare the rows whose keys have one of these codes, which are sorted. None: all rows."""
    if codes is None:
        _compare_in_ranges(inputs, every_row, inputs.rows, diff)
    else:
        _compare_in_ranges(inputs, with_codes(codes), len(codes) * (len(inputs.links) + 1), diff)


def _versions(
    inputs: ComparisonInputs, links: Sequence[Link], sketches: Sequence[Sketch], diff: DiffResult
) -> KeyVersions | StuckStep:
    """Return the rows of the keys that differ in the chain, or a step of which the sketches do not tell all rows.

    Copies of a row cannot be told apart, and a key that a delivery has twice looks like a new one. So duplicate keys of
    deliveries that hinder this are looked up, and their surplus rows are taken out of the sketches and added to `diff`.
    Then each link has each key once. Raises TooManyDuplicates.
    """
    while True:
        versions = peel_chain(sketches)
        candidates = _repeated_codes(inputs, links, versions)
        found = [_remove_duplicates(link, codes, diff) for link, codes in candidates]
        if not any(found):
            return versions


def _repeated_codes(
    inputs: ComparisonInputs, links: Sequence[Link], versions: KeyVersions | StuckStep
) -> Iterator[tuple[Link, U64Array]]:
    """Yield deliveries, each with the codes of its rows that may be duplicates.

    If hashed rows are compared by their values anyway, their duplicates need not be looked up before.
    """
    if isinstance(versions, StuckStep):
        if versions.remainder.is_left.mean() > _MOST_CELLS_LEFT:
            return
        for link in links[versions.number : versions.number + 2]:
            if link.source != PARENT_SOURCE:
                words = link.reader.words_in(versions.remainder)
                yield link, repeated_in(np.sort(inputs.encoder.codes_of(words)))
    elif inputs.encoder.is_packed or inputs.task.policy is MergePolicy.IN_ORDER:
        for link, codes in zip(links, versions.suspects, strict=True):
            if link.source != PARENT_SOURCE:
                yield link, link.reader.repeated(with_codes(codes)) if len(codes) else codes


def _codes_left(inputs: ComparisonInputs, links: Sequence[Link], stuck: StuckStep) -> U64Array | None:
    """Return the codes of the keys that differ, and of some others, if the sketches do not tell all rows.

    The rows that they do not tell are among the rows of both links in the cells that are left. None if these are too
    many, or if the links are not two sets of rows that files have.
    """
    remainder, share = stuck.remainder, float(np.prod(stuck.remainder.is_left.mean(axis=1)))
    is_readable = inputs.task.policy is not MergePolicy.BY_VALUE and len(links) == 2
    if (
        not is_readable
        or share > _LARGEST_SHARE_LEFT
        or share * max(link.sketch.rows for link in links if link.sketch) > ROWS_AT_A_TIME
    ):
        return None
    found, parent = [], inputs.task.parent
    for link in links:
        is_base = parent and link.source == PARENT_SOURCE
        files, only_id = (parent.base_files, link.update_id) if parent and is_base else (None, None)
        found.append(link.reader.words_in(remainder, file_numbers=files, only_id=only_id))
    earlier, later = found
    if not remainder.is_difference_of(later, earlier):
        return None
    return np.unique(inputs.encoder.codes_of(np.concatenate([remainder.told.words, earlier, later], axis=1)))


def _remove_duplicates(link: Link, codes: U64Array, diff: DiffResult) -> bool:
    """Take the surplus rows of the keys with these codes out of a delivery's sketch. Return whether there are any."""
    if not len(codes):
        return False
    rows = without_rows(link.reader.select(with_codes(codes)), diff.surplus[link.source])
    resolved = resolve_duplicates(link.reader, rows)
    _add_surplus(link, resolved, diff)
    return len(resolved.surplus) > 0


def _add_surplus(link: Link, resolved: ResolvedDuplicates, diff: DiffResult) -> None:
    """Take surplus rows out of a delivery's sketch, and add them to `diff`. Raises TooManyDuplicates."""
    if len(resolved.surplus) and link.sketch:
        link.sketch.remove(resolved.surplus_words)
        diff.add_surplus(link.source, resolved.surplus)


def _decoded(inputs: ComparisonInputs, links: Sequence[Link], versions: KeyVersions) -> list[tuple[Link, SelectedRows]]:
    """Return the rows of the keys that differ, by link, from the sketches. The parent's survivors are read."""
    found = []
    for number, link in enumerate(links):
        rows = link.reader.rows_of_words(versions.words_of(number), link.update_id)
        if link.source == PARENT_SOURCE:
            rows = concat_rows([rows, select_survivors(inputs, link, versions.absent_codes(number))])
        found.append((link, rows))
    return sorted(found, key=lambda item: item[0].source)


def _compare_in_ranges(
    inputs: ComparisonInputs,
    selector: RowSelector,
    expected_rows: int,
    diff: DiffResult,
    missing: MissingKeys | None = None,
) -> None:
    """Read the selected rows of all inputs once, and compare them range by range. `expected_rows`: about their number.

    Surplus rows that `diff` has already are left out. `missing`: only these keys count; the newest delivery, which
    lacks them, is not read.

    With older deliveries the sketches take more memory besides the rows. Half as many rows at a time keep the worker of
    a large date near 600 MiB.
    """
    range_count = expected_rows // (ROWS_AT_A_TIME // 2 if len(inputs.task.deliveries) > 1 else ROWS_AT_A_TIME) + 1
    selected = [RangedRows(range_count) for _ in inputs.links]
    for link, rows in zip(inputs.links, selected, strict=True):
        link.reader.select_into(rows, selector, file_numbers=() if missing and link is inputs.newest else None)
    known = {source: tuple(rows) for source, rows in diff.surplus.items()}
    for number in range(range_count):
        of_range = [rows.of_range(number) for rows in selected]
        of_range = [missing.rows_of(rows) for rows in of_range] if missing else of_range
        _compare(
            inputs,
            [
                (link, without_rows(rows, known.get(link.source, ())))
                for link, rows in zip(inputs.links, of_range, strict=True)
            ],
            diff,
        )


def _compare(inputs: ComparisonInputs, rows: Sequence[tuple[Link, SelectedRows]], diff: DiffResult) -> None:
    """Add to `diff` what all rows of some keys tell. `rows`: by link, as in `inputs`. Raises TooManyDuplicates."""
    unique = []
    for link, some in rows:
        if link.source != PARENT_SOURCE:
            resolved = resolve_duplicates(link.reader, some)
            _add_surplus(link, resolved, diff)
            some = resolved.retained
        unique.append((link, some))
    find_winners(inputs, unique, diff)
