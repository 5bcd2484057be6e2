"""The verb `feed`: the feed file that it makes from samples, and the samples that it refuses."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.landed_objects import ObjectVersion
from dedup_clone.settings.feed import Feed, read_feed
from dedup_spark import storage
from deploy.__main__ import main
from deploy.new_feed.proposal import bigquery_column, propose
from deploy.new_feed.sample import find_sample

FIRST = datetime.now(UTC).date() - timedelta(days=9)
SECOND = FIRST + timedelta(days=1)
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # a local time
Row = dict[str, Any]


class Sample:
    """A landed snapshot, and the command that makes a feed file of it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.landed, self.feeds, self._capsys = folder / "landed", folder / "feeds", capsys
        self.feeds.mkdir()
        self.printed = ""

    def write(self, day: date, rows: list[Row], *, snapshot_id: int = 7, folder: str = "") -> Path:
        part = self.landed / f"snapshot_id={snapshot_id}" / (folder or f"day={day}")
        part.mkdir(parents=True)
        named = [{**row, "day": day, "update_id": snapshot_id} for row in rows]
        pq.write_table(pa.Table.from_pylist(named), part / "p.parquet")
        (self.landed / f"snapshot_id={snapshot_id}" / "_DONE").touch()
        return part / "p.parquet"

    def make(self, name: str = "sales", *options: str) -> int:
        status = main(["feed", name, str(self.landed), *(options or ("--owner", "shop-team"))], self.feeds.parent)
        captured = self._capsys.readouterr()
        self.printed = captured.out + captured.err
        return status

    def feed(self, rows: list[Row], **written: Any) -> Feed:
        """The feed that the command makes of these rows of one date."""
        self.write(FIRST, rows, **written)
        assert self.make() == 0
        return self.read()

    def read(self, name: str = "sales") -> Feed:
        return read_feed(self.feeds / f"{name}.yaml")

    @property
    def text(self) -> str:
        return (self.feeds / "sales.yaml").read_text()


@pytest.fixture
def sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sample:
    return Sample(tmp_path, capsys)


def sales(shops: int, articles: int) -> list[Row]:
    """Rows that are unique by shop and article; the other columns repeat, or are unique by accident."""
    return [
        {
            "shop": f"S{shop}",
            "article": article,
            "sold": (shop + article) % 3,
            "amount": Decimal(f"{shop}.{article:02}"),
            "paid_at": datetime(2026, 1, 1, shop, article, tzinfo=UTC),
            "tags": ["a"],
            "buyer": {"city": "Bern", "visits": [1]},
        }
        for shop in range(shops)
        for article in range(articles)
    ]


def test_the_file_has_types_roles_and_the_fewest_keys(sample: Sample) -> None:
    sample.write(FIRST, sales(5, 20))
    feed = sample.feed(sales(5, 20), snapshot_id=8)
    sample.write(SECOND, sales(5, 20), snapshot_id=9)
    assert {c.name: f"{c.type} {c.mode}" for c in feed.table.columns} == {
        "shop": "STRING NULLABLE",
        "article": "INT64 NULLABLE",
        "sold": "INT64 NULLABLE",
        "amount": "NUMERIC NULLABLE",
        "paid_at": "TIMESTAMP NULLABLE",
        "tags": "STRING REPEATED",
        "buyer": "STRUCT NULLABLE",
        "day": "DATE NULLABLE",
        "update_id": "INT64 NULLABLE",
    }
    nested = [f"{f.name} {f.type} {f.mode}" for f in feed.table.columns[6].fields]
    assert nested == ["city STRING NULLABLE", "visits INT64 REPEATED"]
    assert feed.table.keys == ("day", "shop", "article")
    assert (feed.table.partition_column, feed.table.snapshot_id_column) == ("day", "update_id")
    assert feed.table.cluster_by == ("shop", "article")
    assert feed.table.retention_days == (datetime.now(UTC).date() - FIRST).days + 1
    assert (feed.landing.marker, feed.landing.date_folders, feed.owner) == ("_DONE", True, "shop-team")
    assert "# Without column article only 5 of 100 keys would be different." in sample.text
    assert find_sample(str(sample.landed)).snapshot_id == 9, "the newest"
    assert sample.make() == 1, "the file exists"


def test_the_owner_is_the_user_unless_it_is_named_even_like_a_number(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.write(FIRST, [{"shop_id": n} for n in range(3)])
    for number, owner in enumerate(("0o17", "1e3", "1:30", "010", "yes", "2026-01-01")):
        assert sample.make(f"sales_{number}", "--owner", owner) == 0
        assert sample.read(f"sales_{number}").owner == owner

    def no_login() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", no_login)
    assert main(["feed", "other", str(sample.landed)], sample.feeds.parent) == 1


TIMETABLE = [{"minutes": n % 20, "line": f"L{n % 4}", "stop_id": n // 4, "delay": 7 * n % 20} for n in range(40)]
BINARY = [dict(zip("abcd", map(int, f"{n:04b}"), strict=True)) | {"constant": 1} for n in range(16)]
RESERVED = [{"no": n // 4, "on": n % 4, "null": {"off": "x"}} for n in range(12)]
HASHED = [{"shop": row["shop"], "hash": f"{row}".encode()} for row in sales(2, 3)]
# As in measurements, whose only identity is a local time.
MEASURED = [{"value": n % 3, "at": MIDNIGHT + timedelta(minutes=n), "kind": n % 2} for n in range(12)]
UNKNOWN = [{"value": n % 3, "note": f"{n}" if n else None, "kind": n % 2} for n in range(12)]
TWICE = [{"shop_id": n, "town_id": n, "note": 1} for n in range(5)] * 2


@pytest.mark.parametrize(
    ("rows", "keys", "clustered", "comment"),
    [
        (TIMETABLE, ("line", "stop_id"), ("line", "stop_id"), "Unique in the sample, too: [day, minutes, stop_id]"),
        (BINARY, ("a", "b", "c", "d"), ("a", "b", "c", "d"), ""),
        (RESERVED, ("no", "on"), ("no", "on"), ""),
        (HASHED, ("hash",), (), ""),
        (MEASURED, ("at",), ("at",), ""),
        (UNKNOWN, ("value", "kind"), ("value", "kind"), "Column note would tell more rows apart"),
        (TWICE, ("shop_id",), ("shop_id",), "These columns tell as many rows apart: [day, town_id]"),
    ],
    ids=["timetable", "many columns", "words of YAML", "bytes", "local time", "no identity", "duplicates"],
)
def test_texts_and_ids_are_keys_rather_than_values_that_are_unique_by_accident(
    sample: Sample, rows: list[Row], keys: tuple[str, ...], clustered: tuple[str, ...], comment: str
) -> None:
    feed = sample.feed(rows)
    assert (feed.table.keys, feed.table.cluster_by) == (("day", *keys), clustered)
    assert comment.lower() in sample.text.lower()


def test_duplicate_rows_are_counted_and_allowed(sample: Sample) -> None:
    feed = sample.feed([*sales(2, 3), *sales(2, 3)], folder="all")
    assert (feed.landing.date_folders, feed.checks.duplicate_keys) == (False, "warn")
    assert "# Measured over 12 rows: 6 rows are duplicates" in sample.text


def test_neither_a_folder_nor_a_data_file_is_taken_for_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools that show folders make an empty object for each, whose name ends in a slash."""
    sizes = {"": 0, "day=2026-01-01/": 0, "day=2026-01-01/a.parquet": 9, "day=2026-01-01/b.parquet": 0, "ready": 0}
    objects = {name: ObjectVersion(1, size) for name, size in sizes.items()}
    monkeypatch.setattr(storage, "list_objects", lambda uri: objects)
    assert find_sample("gs://landing/sales/snapshot_id=7").marker == "ready"


def test_rows_that_would_be_refused_are_named(sample: Sample) -> None:
    sample.write(FIRST, sales(1, 2), folder=f"day={SECOND}")
    assert sample.make() == 1
    assert "1 of 1 files were validated" in sample.printed


def test_rows_beyond_the_longest_retention_are_reported(sample: Sample) -> None:
    sample.write(date(2007, 1, 1), sales(1, 2))
    assert sample.feed(sales(1, 3)).table.retention_days == 3650
    assert "A publish drops older rows, of this sample 2 of 5" in sample.printed


@pytest.mark.parametrize(
    ("orders", "warned"),
    [({FIRST: [1, 2], SECOND: [3, 4]}, True), ({FIRST: [1, 2], SECOND: [2, 3]}, False), ({FIRST: [1, 2]}, False)],
    ids=["other ids each day", "an id on two days", "one day"],
)
def test_ids_that_are_unique_without_the_date_are_warned_of(
    sample: Sample, orders: dict[date, list[int]], warned: bool
) -> None:
    for day, ids in orders.items():
        sample.write(day, [{"order_id": n, "price": 7} for n in ids])
    assert sample.make() == 0
    assert (sample.read().table.keys, sample.read().checks.unique_across_dates) == (("day", "order_id"), ())
    assert ("`checks: {unique_across_dates: [order_id]}`" in sample.text) == warned


def not_parquet(sample: Sample) -> None:
    sample.write(FIRST, sales(1, 2)).with_name("z.parquet").write_bytes(b"no parquet")


def damaged_footer(sample: Sample) -> None:
    file = sample.write(FIRST, sales(1, 2))
    content = file.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    file.with_name("z.parquet").write_bytes(content[: -8 - size] + b"\xff" * size + content[-8:])


@pytest.mark.parametrize("spoil", [not_parquet, damaged_footer])
def test_a_file_that_cannot_be_read_is_named(sample: Sample, spoil: Callable[[Sample], None]) -> None:
    spoil(sample)
    assert sample.make() == 1
    assert "z.parquet] cannot be read as Parquet" in sample.printed


def test_a_name_with_a_slash_is_refused(sample: Sample) -> None:
    sample.write(FIRST, sales(1, 2))
    assert sample.make("shops/sales") == 1
    assert "[shops/sales]" in sample.printed


NANOSECONDS = pa.array([0], pa.timestamp("ns"))


@pytest.mark.parametrize(
    ("table", "folder", "named"),
    [
        (pa.table({"shop": [1], "update_id": [7]}), f"snapshot_id=7/day={FIRST}", "[day]"),
        (pa.table({"shop": [1], "day": [FIRST]}), f"snapshot_id=7/day={FIRST}", "snapshot id [7]"),
        (pa.table({"day": [FIRST, FIRST], "shop": [1, 2]}), "", "no INT64 column"),
        (pa.table({"day": [FIRST]}), "day=2026-02-30", "[2026-02-30]"),
        (pa.table({"Cost $": [1], "at": [{"_partition": 1}]}), "day=2026-02-03", "[Cost $, _partition]"),
        # As pandas writes times by default, and columns of None.
        (
            pa.table({"at": NANOSECONDS, "left_at": NANOSECONDS, "note": pa.nulls(1)}),
            f"snapshot_id=7/day={FIRST}",
            "[left_at]",
        ),
        (None, "", "no Parquet files"),
    ],
)
def test_a_sample_that_cannot_be_a_feed_says_what_the_producer_must_change(
    tmp_path: Path, table: pa.Table | None, folder: str, named: str
) -> None:
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    if table is not None:
        pq.write_table(table, tmp_path / folder / "p.parquet")
    with pytest.raises(ConfigurationError) as caught:
        propose(find_sample(str(tmp_path)))
    assert named in str(caught.value)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.timestamp("ns"), pa.list_(pa.list_(pa.int64())), pa.time64("us")])
def test_a_type_that_the_data_contract_lacks_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match=r"Sample column \[x\]"):
        bigquery_column(pa.field("x", kind))
