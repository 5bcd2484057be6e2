"""A filter on clustering columns never prunes a block that has a row of the query."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from devstack.bigquery.jobs.block_filters import block_conditions
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage import clustered_blocks
from devstack.bigquery.storage.clustered_blocks import BlockIndex
from devstack.bigquery.storage.model import Partition, TableSettings
from devstack.bigquery.storage.segment_store import SegmentStore
from tests.thoroughness import times

WORDS = ["", "a", "ab", "abc", "b_", "b%", "\u00e9", "z", "x" * 1024, "x" * 1024 + "y"]
SETTINGS = TableSettings(
    (TableField("k", "INT64"), TableField("s", "STRING"), TableField("n", "INT64")), clustering=("k", "s")
)


def random_rows(rng: random.Random) -> pa.Table:
    rows = rng.randrange(1, 60)
    return pa.table(
        {
            "k": pa.array([rng.choice([None, *range(12)]) for _ in range(rows)], pa.int64()),
            "s": pa.array([rng.choice([None, *WORDS]) for _ in range(rows)], pa.string()),
            "n": pa.array(range(rows), pa.int64()),
        }
    )


def random_condition(rng: random.Random, depth: int = 0) -> str:
    if depth < 2 and rng.random() < 0.5:
        joiner = rng.choice([" AND ", " OR "])
        return "(" + joiner.join(random_condition(rng, depth + 1) for _ in range(2)) + ")"
    name = rng.choice(["k", "k", "s"])
    values = [str(rng.randrange(13)) if name == "k" else f"'{rng.choice(WORDS)}'" for _ in range(3)]
    return rng.choice(
        [
            f"t.{name} {rng.choice(['=', '<', '<=', '>', '>='])} {values[0]}",
            f"{values[0]} {rng.choice(['=', '<', '<=', '>', '>='])} t.{name}",
            f"t.{name} BETWEEN {min(values)} AND {max(values)}",
            f"t.{name} IN ({', '.join(values)})",
            f"t.{name} IS NULL",
            f"NOT t.{name} = {values[0]}",
            f"t.{name} <> {values[0]}",
            f"t.s LIKE '{rng.choice(WORDS)[:3]}%'",
            "t.n = t.k",
        ]
    )


@pytest.mark.parametrize("seed", range(times(20, 200)))
def test_no_block_with_a_matching_row_is_pruned(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(clustered_blocks, "BLOCK_BYTES", rng.choice([40, 100]))
    store = SegmentStore(tmp_path)
    with store.batch() as batch:
        segments = tuple(batch.write(random_rows(rng)) for _ in range(rng.randrange(1, 4)))
    partition = Partition(segments, 0, reclustered_segments=rng.randrange(len(segments) + 1))
    groups = BlockIndex(store).blocks(SETTINGS, partition, 0)
    assert sum(group.starts[-1] for group in groups) == partition.rows
    text = random_condition(rng)
    where = sqlglot.parse_one(f"SELECT 1 FROM t WHERE {text}", dialect="bigquery").args["where"]
    conditions = block_conditions(where, "t", SETTINGS.clustering, ())
    for group in groups:
        database = duckdb.connect()
        database.register("bounds", group.bounds.append_column("block", pa.array(range(group.bounds.num_rows))))
        files = [str(store.path(segment)) for segment in group.segments]
        place = "row_number() OVER (ORDER BY k NULLS LAST, s NULLS LAST) - 1 AS place"
        ordered = f"(SELECT {place}, * FROM read_parquet({files!r}))"
        sql = sqlglot.transpile(text, read="bigquery", write="duckdb")[0]
        places = [place for (place,) in database.sql(f"SELECT place FROM {ordered} AS t WHERE {sql}").fetchall()]
        needed = {sum(start <= place for start in group.starts) - 1 for place in places}
        kept = " AND ".join(condition.sql(dialect="duckdb") for condition in conditions) or "true"
        left = {block for (block,) in database.sql(f"SELECT block FROM bounds WHERE {kept}").fetchall()}
        assert needed <= left, text
    all_blocks = [range(group.bounds.num_rows) for group in groups]
    read = sum(group.bytes(blocks, ("k", "s", "n")) for group, blocks in zip(groups, all_blocks, strict=True))
    assert read == partition.bytes
