"""The steps of a chain tell for each key that differs which row every link has, by dictionaries of plain Python."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from dedup_clone.contract.table import Column
from dedup_spark.arrays import U64Array
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.sketch.chain import KeyVersions, StuckStep, peel_chain
from dedup_spark.sketch.row_words import RowEncoder
from dedup_spark.sketch.sketch import Sketch
from tests.thoroughness import seeds

ENCODER = RowEncoder((Column("key", "INT64"),), (Column("value", "INT64"),), Seed(b"7" * 32))
Link = list[tuple[int, int | None]]


def words_of(link: Link) -> U64Array:
    keys, values = [key for key, _ in link], [value for _, value in link]
    return ENCODER.words([pa.array(keys, pa.int64())], [pa.array(values, pa.int64())])


def rows_of(words: U64Array) -> Link:
    keys, values = (array.to_pylist() for array in ENCODER.columns(words))
    return list(zip(keys, values, strict=True))


def sketch_of(link: Link, bits: int) -> Sketch:
    sketch = Sketch.empty(ENCODER, bits)
    sketch.add(words_of(link))
    return sketch


def random_link(random: Random, previous: Link) -> Link:
    """Some keys go, some values change, some keys come, which may have been there before."""
    found = {key: random.choice([value, value, value, 7, None]) for key, value in previous if random.random() < 0.9}
    found.update((key, random.choice([key, None])) for key in random.sample(range(60), random.randrange(6)))
    return list(found.items())


@pytest.mark.parametrize("seed", seeds())
def test_every_links_rows_of_the_keys_that_differ_are_told(seed: int) -> None:
    random = Random(seed)
    links: list[Link] = [[(key, key) for key in range(random.randrange(60))]]
    for _ in range(random.randrange(1, 6)):
        links.append(random_link(random, links[-1]))
    steps = peel_chain([sketch_of(link, 9 + random.randrange(2)) for link in links])
    assert isinstance(steps, list)
    for step, before, after in zip(steps, links[:-1], links[1:], strict=True):
        counts = Counter(after)
        counts.subtract(Counter(before))
        assert dict(zip(rows_of(step.words), step.counts.tolist(), strict=True)) == {
            row: count for row, count in counts.items() if count
        }
    versions = KeyVersions.of_steps(ENCODER, steps)
    differing = {key for link in links for key, value in link if not all((key, value) in other for other in links)}
    assert versions.rows.shape == (len(links), len(differing))
    for number, link in enumerate(links):
        found = [row for row in link if row[0] in differing]
        assert sorted(rows_of(versions.words_of(number)), key=str) == sorted(found, key=str)
        absent = differing - {key for key, _ in found}
        codes = ENCODER.codes_of(words_of([(key, None) for key in absent]))
        assert versions.absent_codes(number).tolist() == sorted(codes.tolist())


@pytest.mark.parametrize("seed", seeds())
def test_a_key_that_a_link_has_twice_is_a_suspect_or_in_the_cells_that_are_left(seed: int) -> None:
    random = Random(seed)
    base: Link = [(key, key) for key in range(40)]
    links = [base, random_link(random, base), random_link(random, base)]
    spoilt = random.randrange(1, 3)
    key, value = random.choice(links[spoilt])
    links[spoilt] += [(key, random.choice([value, 99]))] * random.randrange(1, 3)
    steps = peel_chain([sketch_of(link, 10) for link in links])
    if isinstance(steps, StuckStep):
        assert spoilt in (steps.number, steps.number + 1)
        left = steps.remainder.cells.rows_in(words_of(links[spoilt]))
        assert [links[spoilt][row] for row in left].count(links[spoilt][-1]) > 1
        assert len(left) < len(links[spoilt]) / 4
    else:
        repeated = ENCODER.codes_of(words_of([(key, None)]))[0]
        assert repeated in KeyVersions.of_steps(ENCODER, steps).suspects[spoilt]


def test_unchanged_links_have_no_step() -> None:
    steps = peel_chain([sketch_of([(1, 1), (2, None)], 4)] * 3)
    assert isinstance(steps, list)
    versions = KeyVersions.of_steps(ENCODER, steps)
    assert versions.rows.shape == (3, 0)


def test_a_chain_with_too_many_differences_is_stuck_where_they_are() -> None:
    same, other = ([(key, number) for key in range(500)] for number in range(2))
    steps = peel_chain([sketch_of(link, 6) for link in (same, same, other)])
    assert isinstance(steps, StuckStep)
    assert (steps.number, steps.remainder.cells.is_left.mean() > 0.9) == (1, True)
