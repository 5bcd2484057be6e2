"""How keys are packed and found, how often those of files are read, and in how few words a row is packed.

What comes of it is compared with the oracle in tests/spark.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.table import Column
from dedup_spark import storage
from dedup_spark.column_types import SCALARS, arrow_schema
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.key_source import KeySource
from dedup_spark.comparison.keys import pack_keys, repeated_in, with_codes
from dedup_spark.comparison.selected_rows import every_row
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.plans.difference.comparison_inputs import encoders
from dedup_spark.sketch.row_words import RowEncoder
from testkit.table_contracts import PRODUCTS

VALUES: dict[str, list[Any]] = {
    "INT64": [-(2**63), -1, 0, 1, 2**31, 2**63 - 1],
    "narrow": [5, 6, 7, 1000],
    "STRING": ["", "a", "ab", "é", "\x00"],
    "BYTES": [b"", b"\x00", b"\xff", b"a" * 2000],
    "BOOL": [False, True],
    "NUMERIC": [Decimal("-0.000000001"), Decimal(0), Decimal(10) ** 28],
    "DATE": [date(1, 1, 1), date(9999, 12, 31), date(2026, 3, 1) + timedelta(days=1)],
}


@pytest.mark.parametrize(
    "types",
    [
        ("narrow",),
        ("narrow", "BOOL", "narrow"),
        ("INT64",),
        ("INT64", "INT64"),
        ("INT64", "DATE", "INT64", "INT64"),
        ("STRING", "BYTES", "NUMERIC", "narrow"),
        ("BOOL", "INT64", "STRING", "INT64"),
    ],
    ids=" ".join,
)
def test_packed_keys_are_equal_exactly_where_keys_are(types: tuple[str, ...]) -> None:
    random = Random(str(types))
    keys = [tuple(random.choice(VALUES[kind]) for kind in types) for _ in range(400)]
    columns = tuple(Column(f"c{n}", kind if kind in SCALARS else "INT64") for n, kind in enumerate(types))
    cuts = [0, 150, 150, 400]
    parts = [
        [
            pa.chunked_array(
                [
                    pa.array([key[n] for key in keys[start:stop]][half::2], SCALARS[column.type].in_arrow)
                    for half in (0, 1)
                ]
            )
            for n, column in enumerate(columns)
        ]
        for start, stop in pairwise(cuts)
    ]
    ordered = [key for start, stop in pairwise(cuts) for half in (0, 1) for key in keys[start:stop][half::2]]
    packed = pack_keys(columns, parts)
    found = np.concatenate(packed).tolist()
    assert [len(part) for part in packed] == [150, 0, 250]
    assert len(set(zip(ordered, found, strict=True))) == len(set(ordered)) == len(set(found))
    assert max(found) < 2**63


def test_without_rows_there_are_no_packed_keys() -> None:
    columns = (Column("a", "INT64"), Column("b", "STRING"))
    empty = [pa.chunked_array([], SCALARS[c.type].in_arrow) for c in columns]
    with_empty_chunks = [pa.chunked_array([pa.array([], SCALARS[c.type].in_arrow)]) for c in columns]
    assert [len(part) for part in pack_keys(columns, [empty, with_empty_chunks])] == [0, 0]


def write(path: Path, rows: int) -> str:
    """A file with row groups of ten rows, each of which is read as a batch."""
    values = {"date": date(2026, 3, 1), "store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": 1}
    content = pa.Table.from_pylist([{"product_id": n, **values} for n in range(rows)], arrow_schema(PRODUCTS.columns))
    pq.write_table(content, path, row_group_size=10)
    return str(path)


def test_file_too_large_for_the_cache_of_key_codes_leaves_it_to_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, open_input = [], storage.open_input
    monkeypatch.setattr(storage, "open_input", lambda uri: opened.append(uri) or open_input(uri))
    uris = [write(tmp_path / "large.parquet", 150), write(tmp_path / "small.parquet", 100)]
    encoder = RowEncoder(key_columns(PRODUCTS), PRODUCTS.value_columns, Seed(b"a secret"))
    source = KeySource(KeyReader(PRODUCTS), encoder, uris, cache_bytes=120 * 8)
    assert source.sketch(4).rows == 250
    assert opened == uris
    everything = source.codes(every_row)
    assert opened == [*uris, uris[0]]
    assert len(np.unique(everything)) == 150
    (repeated,) = [source.repeated(every_row)]
    once = np.setdiff1d(everything, repeated)
    assert (len(repeated), len(once)) == (100, 50)
    assert [len(source.repeated(with_codes(codes))) for codes in (once, repeated, repeated[7:9])] == [0, 100, 2]
    for range_count in (1, 3, 200):
        opened.clear()
        ranges = list(source.repeated_by_range(range_count))
        assert (len(ranges), np.concatenate(ranges).tolist(), opened) == (range_count, repeated.tolist(), [uris[0]])


def encoders_of(tmp_path: Path, *tables: pa.Table) -> list[int]:
    """The number of words of each encoder to try."""
    uris = [str(tmp_path / f"{number}.parquet") for number in range(len(tables))]
    for uri, table in zip(uris, tables, strict=True):
        pq.write_table(table, uri)
    return [encoder.word_count for encoder in encoders(KeyReader(PRODUCTS), Seed(b"a secret"), uris)]


def test_ranges_of_footers_make_rows_short(tmp_path: Path) -> None:
    values = {"date": [date(2026, 3, 1)] * 3, "attribute_id": [1, 2, 3], "update_id": [1] * 3}
    near = pa.table(values | {"product_id": [5, 6, 900_000], "store_id": [1, 2, 3], "attr_value": [None, 1, 2]})
    far = pa.table(values | {"product_id": [2**60, 0, 1], "store_id": [-(2**60), 0, 1], "attr_value": [1, 2, 3]})
    assert encoders_of(tmp_path, near, near) == [2, 5]
    assert encoders_of(tmp_path, near, far) == [3, 5]
    absent = near.set_column(near.schema.get_field_index("attr_value"), "attr_value", pa.nulls(3, pa.int64()))
    assert encoders_of(tmp_path, near, absent) == [3, 5]
    assert encoders_of(tmp_path) == [5, 5]


@pytest.mark.parametrize("seed", range(10))
def test_rows_of_given_keys_are_found_and_no_others(seed: int) -> None:
    random = Random(seed)
    keys = [random.choice([random.randrange(40), 2**64 - 1 - random.randrange(5)]) for _ in range(random.randrange(60))]
    codes, wanted = np.array(keys, np.uint64), sorted(set(random.sample(range(40), 9)))
    found = with_codes(np.array(wanted, np.uint64))(codes).tolist()
    assert found == [number for number, key in enumerate(keys) if key in wanted]
    assert repeated_in(np.sort(codes)).tolist() == sorted(key for key, count in Counter(keys).items() if count > 1)
