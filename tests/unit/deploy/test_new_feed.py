"""`make feed`: the feed file that it makes from samples, and the samples that it refuses."""

from __future__ import annotations

import getpass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.feed import Feed, read_feed
from dedup_spark import storage
from dedup_spark.storage import StoredObject
from deploy.new_feed.__main__ import main
from deploy.new_feed.proposal import bigquery_column, propose
from deploy.new_feed.sample import find_sample
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS

FIRST = datetime.now(UTC).date() - timedelta(days=9)
SECOND = FIRST + timedelta(days=1)
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # a local time


def write(folder: Path, day: date, rows: list[dict[str, Any]], *, snapshot_id: int = 7, dated: bool = True) -> None:
    part = folder / f"snapshot_id={snapshot_id}" / (f"day={day}" if dated else "all")
    part.mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist([{**row, "day": day, "update_id": snapshot_id} for row in rows]), part / "p.parquet"
    )
    (folder / f"snapshot_id={snapshot_id}" / "_DONE").touch()


def sales(shops: int, articles: int) -> list[dict[str, Any]]:
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


def make(tmp_path: Path, *, name: str = "sales", owner: str = "shop-team") -> tuple[int, Feed]:
    feeds = tmp_path / "feeds"
    feeds.mkdir(exist_ok=True)
    status = main([name, str(tmp_path / "landed"), "--owner", owner], feeds)
    return status, read_feed(feeds / f"{name}.yaml")


def test_a_user_without_a_login_names_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_login() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", no_login)
    write(tmp_path / "landed", FIRST, sales(2, 2))
    assert make(tmp_path)[1].owner == "shop-team"
    assert main(["other", str(tmp_path / "landed")], tmp_path / "feeds") == 1
    assert "OWNER=" in capsys.readouterr().err


def test_the_file_has_types_roles_and_the_fewest_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in (FIRST, SECOND):
        write(tmp_path / "landed", day, sales(5, 20))
    status, feed = make(tmp_path)
    assert status == 0
    printed, lines = capsys.readouterr().out, (tmp_path / "feeds" / "sales.yaml").read_text().splitlines()
    assert "unique in 200 rows" in printed
    warned = next(line for line in printed.splitlines() if line.startswith("WARNING: retention_days is 10 "))
    assert f"set line {lines.index('  retention_days: 10') + 1} of " in warned
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
    assert [f"{f.name} {f.type} {f.mode}" for f in feed.table.columns[6].fields] == [
        "city STRING NULLABLE",
        "visits INT64 REPEATED",
    ]
    assert feed.table.keys == ("day", "shop", "article")
    assert (feed.table.partition_column, feed.table.snapshot_id_column) == ("day", "update_id")
    assert feed.table.cluster_by == ("shop", "article")
    assert feed.table.retention_days == 10
    assert (feed.landing.marker, feed.landing.date_folders, feed.owner) == ("_DONE", True, "shop-team")
    text = (tmp_path / "feeds" / "sales.yaml").read_text()
    assert "# Measured over 200 rows: every row has a key of its own." in text
    assert "# Without column article only 10 of 200 keys would be different." in text


def test_a_key_that_cannot_cluster_is_proposed_as_key_only(tmp_path: Path) -> None:
    rows = [{"shop": row["shop"], "hash": f"{row}".encode()} for row in sales(2, 3)]
    write(tmp_path / "landed", FIRST, rows)
    status, feed = make(tmp_path)
    assert (status, feed.table.keys, feed.table.cluster_by) == (0, ("day", "hash"), ())


def test_duplicate_rows_are_counted_and_the_file_says_so(tmp_path: Path) -> None:
    write(tmp_path / "landed", FIRST, [*sales(2, 3), *sales(2, 3)], dated=False)
    status, feed = make(tmp_path)
    assert status == 0
    assert feed.landing.date_folders is False
    assert feed.checks.duplicate_keys == "warn"
    assert "# Measured over 12 rows: 6 rows are duplicates" in (tmp_path / "feeds/sales.yaml").read_text()


def test_only_the_newest_snapshot_of_several_counts(tmp_path: Path) -> None:
    write(tmp_path / "landed", FIRST, sales(1, 2), snapshot_id=7)
    write(tmp_path / "landed", SECOND, sales(1, 3), snapshot_id=12)
    sample = find_sample(str(tmp_path / "landed"))
    assert (sample.snapshot_id, len(sample.files), propose(sample).rows) == (12, 1, 3)


def test_neither_a_folder_nor_a_data_file_is_taken_for_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools that show folders make an empty object for each, whose name ends in a slash."""
    sizes = {"": 0, "day=2026-01-01/": 0, "day=2026-01-01/a.parquet": 9, "day=2026-01-01/b.parquet": 0, "ready": 0}
    objects = {name: StoredObject(generation=1, size=size) for name, size in sizes.items()}
    monkeypatch.setattr(storage, "list_objects", lambda uri: objects)
    assert find_sample("gs://landing/sales/snapshot_id=7").marker == "ready"


def test_rows_that_would_be_refused_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "landed", FIRST, sales(1, 2))
    folder = tmp_path / "landed" / "snapshot_id=7"
    (folder / f"day={FIRST}").rename(folder / f"day={SECOND}")
    status, feed = make(tmp_path)
    assert (status, feed.table.partition_column) == (1, "day")
    assert "problems were found. 1 of 1 files were validated" in capsys.readouterr().out


def test_texts_and_ids_are_keys_rather_than_values_that_are_unique_by_accident(tmp_path: Path) -> None:
    rows = [{"minutes": n, "line": f"L{n % 4}", "stop_id": n // 4, "delay": 7 * n} for n in range(40)]
    write(tmp_path / "landed", FIRST, [{**r, "minutes": r["minutes"] % 20, "delay": r["delay"] % 20} for r in rows])
    _, feed = make(tmp_path)
    assert feed.table.keys == ("day", "line", "stop_id")
    text = (tmp_path / "feeds" / "sales.yaml").read_text()
    assert "# Unique in the sample, too: [day, minutes, stop_id]" in text


def test_keys_of_more_than_three_columns_are_found(tmp_path: Path) -> None:
    rows = [dict(zip("abcd", map(int, f"{n:04b}"), strict=True)) | {"constant": 1} for n in range(16)]
    write(tmp_path / "landed", FIRST, rows)
    assert make(tmp_path)[1].table.keys == ("day", "a", "b", "c", "d")


def test_rows_beyond_the_longest_retention_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "landed", date(2007, 1, 1), sales(1, 2))
    write(tmp_path / "landed", FIRST, sales(1, 3))
    status, feed = make(tmp_path)
    assert (status, feed.table.retention_days) == (0, 3650)
    printed = capsys.readouterr().out
    assert "2 of 5 rows are older than 3650 days, and will be dropped" in printed
    assert "only because the sample's oldest date is 2007-01-01, and no feed may keep more days." in printed


def test_names_that_yaml_would_take_for_other_values_are_quoted(tmp_path: Path) -> None:
    rows = [{"no": n // 4, "on": n % 4, "null": {"off": "x"}} for n in range(12)]
    write(tmp_path / "landed", FIRST, rows)
    status, feed = make(tmp_path)
    assert status == 0
    assert feed.table.keys == ("day", "no", "on")
    assert [c.name for c in feed.table.columns][:3] == ["no", "on", "null"]
    assert [f.name for f in feed.table.columns[2].fields] == ["off"]


def test_an_owner_that_yaml_would_take_for_a_number_is_quoted(tmp_path: Path) -> None:
    write(tmp_path / "landed", FIRST, [{"shop_id": n} for n in range(3)])
    for number, owner in enumerate(("0o17", "1e3", "1:30", "010", "yes", "2026-01-01")):
        status, feed = make(tmp_path, name=f"sales_{number}", owner=owner)
        assert (status, feed.owner) == (0, owner)


@pytest.mark.parametrize(
    ("orders", "warned"),
    [({FIRST: [1, 2], SECOND: [3, 4]}, True), ({FIRST: [1, 2], SECOND: [2, 3]}, False), ({FIRST: [1, 2]}, False)],
    ids=["other ids each day", "an id on two days", "one day"],
)
def test_ids_that_are_unique_without_the_date_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], orders: dict[date, list[int]], warned: bool
) -> None:
    for day, ids in orders.items():
        write(tmp_path / "landed", day, [{"order_id": n, "price": 7} for n in ids])
    status, feed = make(tmp_path)
    assert (status, feed.table.keys, feed.checks.unique_across_dates) == (0, ("day", "order_id"), ())
    printed, text = capsys.readouterr().out, (tmp_path / "feeds" / "sales.yaml").read_text()
    assert ("WARNING: [order_id] is unique without [day], too" in printed) == warned
    assert ("`checks: {unique_across_dates: [order_id]}`" in printed) == warned
    assert ("[order_id] is unique without day, too" in text) == warned


def test_columns_that_do_not_tell_all_rows_apart_are_not_called_unique(tmp_path: Path) -> None:
    rows = [{"shop_id": n, "town_id": n, "note": 1} for n in range(5)]
    write(tmp_path / "landed", FIRST, [*rows, *rows])
    make(tmp_path)
    text = (tmp_path / "feeds" / "sales.yaml").read_text()
    assert "# These columns tell as many rows apart: [day, town_id]" in text
    assert "Unique in the sample" not in text


def test_a_sample_without_a_snapshot_id_says_what_its_column_must_be(tmp_path: Path) -> None:
    pq.write_table(pa.table({"day": [FIRST, FIRST], "shop": [1, 2]}), tmp_path / "p.parquet")
    with pytest.raises(ConfigurationError, match="no INT64 column that has the same value in every row"):
        propose(find_sample(str(tmp_path)))


def test_a_folder_whose_date_is_not_in_the_calendar_is_named(tmp_path: Path) -> None:
    part = tmp_path / "day=2026-02-30"
    part.mkdir()
    pq.write_table(pa.table({"day": [FIRST]}), part / "p.parquet")
    with pytest.raises(ConfigurationError, match=r"\[2026-02-30\], which is no date of the calendar"):
        find_sample(str(tmp_path))


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "landed", FIRST, sales(1, 2))
    (tmp_path / "landed" / "snapshot_id=7" / f"day={FIRST}" / "z.parquet").write_bytes(b"no parquet")
    assert main(["sales", str(tmp_path / "landed")], tmp_path) == 1
    assert "z.parquet] cannot be read as Parquet" in capsys.readouterr().err


def test_a_parquet_file_with_a_damaged_footer_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "landed", FIRST, sales(1, 2))
    file = tmp_path / "landed" / "snapshot_id=7" / f"day={FIRST}" / "p.parquet"
    content = file.read_bytes()
    footer_size = int.from_bytes(content[-8:-4], "little")
    file.write_bytes(content[: -8 - footer_size] + b"\xff" * footer_size + content[-8:])
    assert main(["sales", str(tmp_path / "landed")], tmp_path) == 1
    assert "p.parquet] cannot be read as Parquet" in capsys.readouterr().err


def test_an_existing_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "landed", FIRST, sales(1, 2))
    make(tmp_path)
    assert main(["sales", str(tmp_path / "landed")], tmp_path / "feeds") == 1
    assert "sales.yaml] exists" in capsys.readouterr().err


def test_a_name_with_a_slash_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "landed", FIRST, sales(1, 2))
    assert main(["shops/sales", str(tmp_path / "landed")], tmp_path) == 1
    assert "[shops/sales] has a slash in its name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"shop": 1, "update_id": 7}], "lack the column [day] of their folders"),
        ([{"shop": 1, "day": FIRST}], "no INT64 column that equals the snapshot id [7]"),
        (
            [{"Cost $": 1, "at": {"_partition": 1}}],
            "Sample columns [Cost $, _partition] have names that no feed can have",
        ),
    ],
)
def test_a_sample_that_cannot_be_a_feed_says_what_the_producer_must_add(
    tmp_path: Path, rows: list[dict[str, Any]], reason: str
) -> None:
    part = tmp_path / "snapshot_id=7" / f"day={FIRST}"
    part.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), part / "p.parquet")
    with pytest.raises(ConfigurationError) as caught:
        propose(find_sample(str(tmp_path)))
    assert reason in str(caught.value)


def test_columns_that_cannot_be_keys_but_would_tell_rows_apart_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in measurements, whose only identity is a local time."""
    measured = [
        {"value": n % 3, "at": MIDNIGHT + timedelta(minutes=n), "note": f"{n}" if n else None, "kind": n % 2}
        for n in range(12)
    ]
    write(tmp_path / "landed", FIRST, measured)
    _, feed = make(tmp_path)
    assert feed.table.keys == ("day", "value", "kind")
    text, printed = (tmp_path / "feeds/sales.yaml").read_text(), capsys.readouterr().out
    for column, reason in (("at", "is a time without zone, which cannot be a key"), ("note", "has NULL in some rows")):
        assert f"# Column {column} would tell more rows apart, but {reason}" in text
        assert f"column [{column}] would help, but {reason}" in printed


def test_all_columns_of_types_that_no_feed_can_have_are_named_with_what_to_do(tmp_path: Path) -> None:
    """As pandas writes times by default, and columns of None."""
    part = tmp_path / "snapshot_id=7" / f"day={FIRST}"
    part.mkdir(parents=True)
    times = pa.array([0], pa.timestamp("ns"))
    pq.write_table(pa.table({"at": times, "left_at": times, "note": pa.nulls(1)}), part / "p.parquet")
    with pytest.raises(ConfigurationError) as caught:
        propose(find_sample(str(tmp_path)))
    reasons = str(caught.value).splitlines()[1:]
    assert [reason.split("]")[0] for reason in reasons] == [f"  Sample column [{n}" for n in ("at", "left_at", "note")]
    assert 'to_parquet(…, coerce_timestamps="us")' in reasons[0]
    assert "no row of the file has a value in it" in reasons[2]


@pytest.mark.parametrize("kind", [pa.uint64(), pa.timestamp("ns"), pa.list_(pa.list_(pa.int64())), pa.time64("us")])
def test_a_type_that_the_data_contract_lacks_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match=r"Sample column \[x\]"):
        bigquery_column(pa.field("x", kind))


def test_a_folder_without_parquet_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There are no Parquet files"):
        find_sample(str(tmp_path))


def test_the_dedup_job_publishes_the_sample_with_the_new_feed(tmp_path: Path) -> None:
    landing = SparkJobFeed(None, f"{tmp_path}/landing", f"{tmp_path}/state", PRODUCTS)
    rows = [
        {"date": day, "product_id": n % 7, "store_id": n // 7, "attribute_id": 1, "attr_value": n % 3, "update_id": 7}
        for day in (FIRST, SECOND)
        for n in range(40)
    ]
    arrival = landing.land(7, rows)
    proposal = propose(find_sample(str(tmp_path / "landing")))
    assert proposal.table.keys == ("date", "product_id", "store_id")
    feed = SparkJobFeed(None, landing.bucket, landing.state, proposal.table)
    candidate = feed.publish(arrival)
    assert (candidate.refused, len(feed.rows())) == ((), 80)
