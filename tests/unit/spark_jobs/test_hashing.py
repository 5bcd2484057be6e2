"""Hashes and seeds: equal for equal keys and rows in any order and any files, different for others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_clone.settings.table_settings import KEY_TYPES
from dedup_spark.column_types import SCALARS, arrow_schema
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import as_declared, key_columns
from dedup_spark.fingerprints.seed import Seed, read_seed
from dedup_spark.fingerprints.value_hashing import ValueHasher


def test_seed_is_made_once_for_each_feed(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    assert read_seed(one) == read_seed(one)
    assert read_seed(one) != read_seed(other)
    assert len(read_seed(one).secret) == 32


@pytest.mark.parametrize("content", ["", "12", "no hexadecimal digits", "ab" * 31])
def test_damaged_seed_is_refused_with_the_next_step(tmp_path: Path, content: str) -> None:
    uri = tmp_path / "seed"
    uri.write_text(content)
    with pytest.raises(ContractViolation, match=r"seed.* is damaged.*Restore the object"):
        read_seed(str(uri))


def test_secret_is_not_shown() -> None:
    seed = Seed(b"a secret")
    assert "secret" not in repr(seed).replace("Seed()", "")
    assert seed.public_id != Seed(b"another").public_id
    assert b"a secret" not in seed.public_id.to_bytes(8, "big")


SEED = Seed(b"a secret")

REPEATED = ColumnMode.REPEATED
PAIR = (Column("a", "INT64"), Column("b", "STRING"))
DISTINCT: dict[str, tuple[Column, list[Any]]] = {
    "INT64": (Column("v", "INT64"), [None, 0, 1, -1, 2**63 - 1]),
    "FLOAT64": (Column("v", "FLOAT64"), [None, 0.0, 1.5, float("nan"), float("inf"), -float("inf")]),
    "STRING": (Column("v", "STRING"), [None, "", "a", "aa", "x" * 5000, "x" * 4999]),
    "BYTES": (Column("v", "BYTES"), [None, b"", b"\x00", b"\x00\x00"]),
    "BOOL": (Column("v", "BOOL"), [None, False, True]),
    "DATE": (Column("v", "DATE"), [None, date(1970, 1, 1), date(2026, 1, 1)]),
    "TIMESTAMP": (Column("v", "TIMESTAMP"), [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]),
    "DATETIME": (Column("v", "DATETIME"), [None, datetime(1970, 1, 1), datetime(2026, 1, 1)]),  # noqa: DTZ001
    "NUMERIC": (Column("v", "NUMERIC"), [None, Decimal(0), Decimal("0.000000001"), Decimal("-1E28")]),
    "STRUCT": (
        Column("v", "STRUCT", fields=PAIR),
        [None, {"a": None, "b": None}, {"a": 0, "b": None}, {"a": 0, "b": ""}, {"a": None, "b": "0"}],
    ),
    "ARRAY": (Column("v", "INT64", REPEATED), [[], [0], [0, 0], [0, 1], [1, 0], [None], [None, 0]]),
    "ARRAY of STRING": (Column("v", "STRING", REPEATED), [[], [""], ["ab"], ["a", "b"], ["b", "a"], ["", "ab"]]),
    "ARRAY of STRUCT": (
        Column("v", "STRUCT", REPEATED, (Column("a", "INT64"), Column("inner", "STRING", REPEATED))),
        [[], [{"a": 1, "inner": []}], [{"a": 1, "inner": ["x"]}], [{"a": 1, "inner": []}, {"a": 1, "inner": ["x"]}]],
    ),
}


def value_hashes(column: Column, values: Sequence[Any], keys: Sequence[int] | None = None) -> list[int]:
    array = pa.array(values, arrow_schema((column,)).field(0).type)
    first = np.array(keys or [7] * len(values), dtype=np.uint64)
    return ValueHasher((column,), SEED).hash(first, [array]).tolist()


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_values_have_distinct_hashes_and_equal_ones_the_same(name: str) -> None:
    column, values = DISTINCT[name]
    assert len(set(value_hashes(column, values))) == len(values)
    assert value_hashes(column, values * 2) == value_hashes(column, values) * 2
    assert value_hashes(column, values[::-1]) == value_hashes(column, values)[::-1]


@pytest.mark.parametrize("name", DISTINCT)
def test_slices_hash_as_their_own_rows(name: str) -> None:
    column, values = DISTINCT[name]
    array = pa.array(values * 3, arrow_schema((column,)).field(0).type).slice(1, len(values))
    first = np.full(len(array), 7, dtype=np.uint64)
    assert ValueHasher((column,), SEED).hash(first, [array]).tolist() == value_hashes(
        column, (values * 3)[1 : 1 + len(values)]
    )


def test_an_array_that_is_null_has_the_hash_of_an_empty_one() -> None:
    inner = Column("v", "STRUCT", fields=(Column("items", "STRING", REPEATED),))
    for column, empty, null in ((DISTINCT["ARRAY"][0], [], None), (inner, {"items": []}, {"items": None})):
        assert len(set(value_hashes(column, [empty, null]))) == 1


def test_numbers_that_the_contract_calls_equal_have_equal_hashes() -> None:
    zero, minus_zero, one_nan, other_nan = value_hashes(
        Column("v", "FLOAT64"), [0.0, -0.0, float("nan"), float(np.array([0xFFF8000000000001], "u8").view("f8")[0])]
    )
    assert (zero, one_nan) == (minus_zero, other_nan)


def test_equal_values_of_other_keys_have_other_hashes() -> None:
    assert len(set(value_hashes(Column("v", "INT64"), [5, 5, 5], [1, 2, 3]))) == 3


def test_without_value_columns_the_key_alone_decides() -> None:
    first = np.arange(5, dtype=np.uint64)
    assert len(set(ValueHasher((), SEED).hash(first, []).tolist())) == 5


ROWS = 3000
MAKERS = {
    "INT64": lambda n: (n - ROWS // 2) * 2**40 + n,
    "DATE": lambda n: date(1900, 1, 1) + timedelta(days=n),
    "DATETIME": lambda n: datetime(1969, 12, 31) + timedelta(microseconds=n),  # noqa: DTZ001
    "TIMESTAMP": lambda n: datetime(1969, 12, 31, tzinfo=UTC) + timedelta(microseconds=n),
    "BOOL": lambda n: n % 2 == 0,
    "STRING": lambda n: "é" * (n % 7) + str(n),
    "BYTES": lambda n: b"\x00" * (n % 5) + n.to_bytes(3, "big"),
    "NUMERIC": lambda n: Decimal(n - 5) * Decimal("1000000000000.000000001"),
}


def hasher(*types: str, seed: Seed = SEED) -> KeyHasher:
    return KeyHasher(tuple(Column(f"c{place}", kind) for place, kind in enumerate(types)), seed)


def arrays(types: Sequence[str], numbers: Sequence[int]) -> list[pa.Array]:
    return [pa.array([MAKERS[kind](n) for n in numbers], SCALARS[kind].in_arrow) for kind in types]


@pytest.mark.parametrize("kind", sorted(KEY_TYPES))
def test_each_key_type_has_distinct_hashes_for_distinct_values(kind: str) -> None:
    types = ("INT64", "BOOL") if kind == "BOOL" else (kind,)
    first, second = hasher(*types).both(arrays(types, range(ROWS)))
    assert len(np.unique(first)) == len(np.unique(second)) == ROWS
    assert not np.array_equal(first, second)
    assert np.array_equal(first, hasher(*types).first(arrays(types, range(ROWS))))


def test_slices_of_larger_arrays_hash_as_their_own_rows() -> None:
    types = ("STRING", "BYTES", "NUMERIC", "BOOL", "DATE")
    whole = hasher(*types).first(arrays(types, range(100)))
    sliced = hasher(*types).first([array.slice(40, 30) for array in arrays(types, range(100))])
    assert np.array_equal(whole[40:70], sliced)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 1023, 1024, 1025, 5000])
def test_texts_of_any_length_differ_by_each_of_their_bytes(length: int) -> None:
    text = bytes(Random(length).randrange(256) for _ in range(length))
    others = [text + b"\x00", *([text[:-1], text[:-1] + bytes([text[-1] ^ 1])] if length else [])]
    if length:
        others.append(bytes([text[0] ^ 128]) + text[1:])
    others = list(dict.fromkeys(other for other in others if other != text))
    first = hasher("BYTES").first([pa.array([text, *others, text], pa.binary())])
    assert first[0] == first[-1]
    assert len(np.unique(first)) == len(others) + 1


def test_bytes_do_not_move_between_neighbouring_columns() -> None:
    first = hasher("STRING", "STRING").first([pa.array(["ab", "a", ""]), pa.array(["c", "bc", "abc"])])
    assert len(np.unique(first)) == 3


def test_equal_values_swapped_between_columns_differ() -> None:
    first = hasher("INT64", "INT64").first([pa.array([1, 2, 0]), pa.array([2, 1, 3])])
    assert len(np.unique(first)) == 3


def test_narrower_physical_types_hash_as_the_declared_one() -> None:
    number, text = Column("n", "INT64"), Column("t", "STRING")
    values = [1, -7, 30000]
    wide, narrow = pa.array(values, pa.int64()), as_declared(number, pa.array(values, pa.int16()))
    assert np.array_equal(hasher("INT64").first([wide]), hasher("INT64").first([narrow]))
    coded = as_declared(text, pa.array(["a", "b", "a"]).dictionary_encode())
    assert np.array_equal(hasher("STRING").first([pa.array(["a", "b", "a"])]), hasher("STRING").first([coded]))


def test_another_seed_gives_other_hashes() -> None:
    values = arrays(("INT64",), range(ROWS))
    one, two = (hasher("INT64", seed=Seed(secret)).both(values) for secret in (b"1", b"2"))
    assert not np.intersect1d(one, two).size


@pytest.mark.parametrize("bit", [0, 1, 31, 32, 62, 63])
def test_each_input_bit_flips_each_output_bit_half_of_the_time(bit: int) -> None:
    numbers = np.random.default_rng(bit).integers(-(2**63), 2**63, 4000)
    flipped = (numbers.view(np.uint64) ^ np.uint64(1 << bit)).view(np.int64)
    other = pa.array(np.arange(4000))
    for place in (0, 1):
        columns = [[pa.array(values), other][:: 1 - 2 * place] for values in (numbers, flipped)]
        one, two = (hasher("INT64", "INT64").both(values) for values in columns)
        for before, after in zip(one, two, strict=True):
            changed = ((before ^ after)[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
            assert np.abs(changed.mean(axis=0) - 0.5).max() < 0.05


def test_hashes_stay_those_of_recorded_keys_and_stored_sketches() -> None:
    """With a change of these values the versions of hashes and of stored sketches must change too."""
    hasher = KeyHasher((Column("number", "INT64"), Column("name", "STRING")), SEED)
    first, second = hasher.both([pa.array([7, -1]), pa.array(["shoe", ""])])
    assert [hex(word) for word in first] == ["0x1cc3fe1916da9c0", "0x8f4383ff4aa799e3"]
    assert [hex(word) for word in second] == ["0x5973bd3ea1d11f93", "0xea622c7e9a930613"]
    contents = ValueHasher((Column("value", "INT64"),), SEED).hash(first, [pa.array([1, None])])
    assert [hex(word) for word in contents] == ["0x42221fcf10f30783", "0xf2546be241795c3a"]


def test_the_date_alone_is_no_part_of_a_dates_keys_unless_it_is_the_only_one() -> None:
    columns = (Column("d", "DATE"), Column("k", "STRING"), Column("u", "INT64"))
    assert [c.name for c in key_columns(TableContract(columns, "d", "u", ("k", "d"), (), 1))] == ["k"]
    assert [c.name for c in key_columns(TableContract(columns, "d", "u", ("d",), (), 1))] == ["d"]


# Keys that a stranger built so that both hashes agreed, when these had a public seed and a linear mixing.
COLLIDING = (
    "p><ZpaxEnYC)ORoZ{!t}ClPUqy=5wXu5/rFxz{#f$$W;{Q;QfNI8D!(}N/V66BEWzztM;eIJJ[K;FN+2"
    "|I0#KDbc41/==hN)L/YP@L?KWV/*nv91CSoFg$0o-[g6sd.=M^MY~b4SCVTY(^RX&3W25{M}$#MA0J,L"
    "3.%z0<ybr1NT=~T6gN[}O3>I'8QKRiuHHi-[`YDK=J^K6Ub1.*O2L''@~beE1v*=F-U[\"ydi;}`[|O/?"
    '+0V>XEZO~AY65=iYLFF!7,/F/[\\5?G!)AhW%}{KZt:1MPzj9Yf!JRhLHKIz,9gG+8:+/f"kBcEHCDytH',
    "p><ZpaxEnYC)ORoZ{!t}ClPuqy=UwXuU/rFxz{#F$$W[{Q;1fNI8D!(]N/VV6BE7zztM;eIJJ[K;FN+2"
    "|I0#KDbC41/]=hNIL/YP@L?kWV/Jnv9QCSoFg$0o-[g6sd.=M^MY~b4sCVT9(^R8&3W25{M]$#M!0J,,"
    "3.%z0<yBr1N4=~TVgN[}O3>I'8QKRiuHHi-[`YDk=J^+6UbQ.*O2L''`~be%1v*]F-U[\"ydI;}`;|O/_"
    '+0V>XEZO~AY65=iYLFF!7,/f/[\\U?G!IAhW%}{KZt:1MPzj9Yf!JRhLhKIzL9gGK8:+/f"kbcEH#Dyt(',
)


@pytest.mark.parametrize("secret", [b"1", b"2", (0x5DEECE66D1CE4E5D).to_bytes(8, "big")])
def test_texts_whose_former_hashes_agreed_are_told_apart_with_any_seed(secret: bytes) -> None:
    for hashes in hasher("STRING", seed=Seed(secret)).both([pa.array(COLLIDING)]):
        assert hashes[0] != hashes[1]


def test_changes_of_the_highest_bits_cancel_in_neither_hash() -> None:
    """What one multiplication does to the highest bit of a word is known without the seed; the next word undid it."""
    words = np.random.default_rng(8).integers(-(2**63), 2**63, (2, 5000))
    twins = words ^ np.array([[-(2**63)], [-(2**63) | 2**31]])
    own, other = (
        np.array(hasher("INT64", "INT64").both([pa.array(column) for column in pair])) for pair in (words, twins)
    )
    assert (own[0] != other[0]).all()
    assert ((own != other).any(axis=0)).all()
