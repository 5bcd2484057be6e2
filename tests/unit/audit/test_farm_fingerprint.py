"""The fingerprint of many texts at once is BigQuery's FARM_FINGERPRINT of each."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from dedup_clone.audit.farm_fingerprint import farm_fingerprints
from devstack.bigquery.sql.farm_fingerprint import farm_fingerprint
from devstack.zetasql.evaluate import ReferenceEvaluator

# One or more of each form that the hash has, and the lengths at which one form ends.
LENGTHS = (*range(140), 191, 192, 193, 255, 256, 257, 1000, 4096, 4097)
_source = random.Random(1)
TEXTS = ["".join(_source.choice("ab0;:n\x00\x7f") for _ in range(length)) for length in LENGTHS]


def of_all(texts: list[str]) -> list[int]:
    return farm_fingerprints(pa.array(texts, pa.large_string())).tolist()


def test_documented_values() -> None:
    """Source: "Hash functions", FARM_FINGERPRINT, example."""
    expected = [-1541654101129638711, 2794438866806483259, -4880158226897771312]
    assert of_all(["1footrue", "2applefalse", "3true"]) == expected


def test_texts_of_all_lengths_equal_the_reference_implementation(reference: ReferenceEvaluator) -> None:
    calls = ", ".join(f"FARM_FINGERPRINT(FROM_HEX('{text.encode().hex()}')) AS c{i}" for i, text in enumerate(TEXTS))
    assert of_all(TEXTS) == list(reference.evaluate(f"SELECT {calls}").rows[0])


def test_the_stand_in_computes_the_same() -> None:
    assert [farm_fingerprint(text.encode()) for text in TEXTS] == of_all(TEXTS)


@pytest.mark.parametrize(("start", "length"), [(0, 5), (3, 40), (100, None), (7, 0)])
def test_a_part_of_an_array_has_the_fingerprints_of_its_texts(start: int, length: int | None) -> None:
    part = pa.array(TEXTS, pa.large_string()).slice(start, length)
    assert farm_fingerprints(part).tolist() == of_all(part.to_pylist())
