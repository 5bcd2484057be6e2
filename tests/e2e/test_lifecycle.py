"""Backfills, erases and retires on a stack of its own, whose clock is moved at the end.

A feed publishes an archive while a new delivery arrives, and is then retired. In a second feed a customer's rows are
erased: afterwards nothing that the stack has written may contain the customer's name or product.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from deploy.__main__ import main
from devstack.stack import postgres
from testkit.running_stack import running_stack
from testkit.stack import Stack
from testkit.stack_snapshots import SCHEMA, Row, row
from testkit.value_search import Value, contains, encodings
from testkit.waiting import wait_for
from tests.e2e.feeds import DECLARED, TODAY, YESTERDAY, keep_only, write_feed
from tests.e2e.landed_deliveries import assert_records, small_snapshot

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ARCHIVED, ERASED = "archived", "erased"
ARCHIVE = "archive"  # a folder of the landing bucket
NAME = "customer-8d1f6a07"  # a key of type STRING, which Parquet encodes in another way than numbers
PRODUCT = 1_234_567_890_123_456_789  # only in rows of the customer; no other number has its digits
SECRETS: tuple[Value, ...] = (NAME, PRODUCT)
# Each date has three keys: the customer's and these. A failed check shows three keys, so the customer's is among them.
OTHERS = {1: "customer-00000001", 2: "customer-00000002"}
# After this time nothing deleted can be restored: time travel and fail-safe of BigQuery are over.
RESTORE_PERIOD = timedelta(days=40)


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    def add_feeds(dags: Path) -> None:
        table = {
            "columns": [*DECLARED, {"name": "customer", "type": "STRING"}],
            "keys": ["date", "product_id", "store_id", "attribute_id", "customer"],
        }
        write_feed(dags, ARCHIVED)
        write_feed(dags, ERASED, table=table, checks={"max_changed_share": 0.5}, changes=True)
        keep_only(dags, ARCHIVED, ERASED)

    with running_stack(tmp_path_factory.mktemp("stack") / "local", add_feeds) as stack:
        yield stack


def test_an_archive_is_published_while_a_new_delivery_arrives(own_stack: Stack) -> None:
    stack = own_stack
    stack.land_at_once(ARCHIVE, {id_: small_snapshot(id_) for id_ in (1, 2, 3)})
    stack.assert_published(ARCHIVED, stack.land(ARCHIVED, 4, small_snapshot(4)))
    arguments = ["backfill", ARCHIVED, "--archive", f"gs://landing/{ARCHIVE}", "--apply"]
    poll = patch("deploy.backfill.sleep", lambda seconds: time.sleep(1))
    with ThreadPoolExecutor(1) as pool, patch.dict("os.environ", stack.variables), poll:
        backfill = pool.submit(main, arguments, stack.layout.dags_folder)
        wait_for(lambda: backfill.done() or len(stack.registered(ARCHIVED)) > 1, "the archive's first lands")
        live = stack.land(ARCHIVED, 5, small_snapshot(5))
        assert backfill.result() == 0
    runs = sorted(f"publish__{name.replace('-', '__')}" for name in stack.registered(ARCHIVED))
    assert [int(run.split("__")[1]) for run in runs] == [1, 2, 3, 4, 5]
    stack.assert_published(ARCHIVED, live, runs[2])  # the backfill ends when the last snapshot has landed
    assert_records(stack, ARCHIVED, runs)


def test_a_retired_feed_leaves_its_ledger_and_publishes_nothing(own_stack: Stack) -> None:
    stack = own_stack
    stack.approve(ARCHIVED, "retire", target="drop", reason="nobody reads it")
    tables = {table.table_id for table in stack.bigquery.list_tables("warehouse")}
    assert not {name for name in tables if name.startswith(ARCHIVED)}
    assert ARCHIVED not in {shown["feed"] for shown in stack.ask("GET", "dedup-clone/api/feeds").json()["feeds"]}
    names = [name.removeprefix(f"{ARCHIVED}/") for name in stack.state_names(f"{ARCHIVED}/")]
    assert stack.current(ARCHIVED)["retired"]["target"] == "drop"
    assert [name for name in names if not name.startswith(("CURRENT", "ledger/", "fingerprint_seed"))] == []

    stack.land(ARCHIVED, 6, small_snapshot(6))
    run_id = stack.start(f"{ARCHIVED}_publish", snapshot_id="6", reason="to see that it is refused")
    assert stack.wait_for_run(ARCHIVED, run_id) == "failed"
    assert "was retired" in stack.task_log(ARCHIVED, run_id, "resolve_publish")
    assert stack.registered(ARCHIVED) == []


def land(stack: Stack, snapshot_id: int, value: int, secret_value: int) -> str:
    """Land a snapshot that has the customer on two dates, with another value than the other rows."""
    names, values = {**OTHERS, PRODUCT: NAME}, {1: value, 2: value, PRODUCT: secret_value}
    rows: list[Row] = [
        {**row(day, product, values[product], snapshot_id), "customer": name}
        for day in (YESTERDAY, TODAY)
        for product, name in names.items()
    ]
    return stack.land(ERASED, snapshot_id, rows, SCHEMA.append(pa.field("customer", pa.string())))


def products(stack: Stack, table: str) -> set[int]:
    return {found["product_id"] for found in stack.query(f"SELECT DISTINCT product_id FROM warehouse.{table}")}


def places_of(stack: Stack, value: Value) -> list[str]:
    """The files of the stack, and the tables of Airflow's database, that contain the value.

    Landing is left out, because the producer writes it; PostgreSQL's own files, because deleted rows stay in them until
    a vacuum; and the folder `run`, with sockets, ports and settings of the running processes.
    """
    layout = stack.layout
    ignored = (layout.database, layout.run, layout.gcs_data / "landing")
    files = [path for path in layout.local.rglob("*") if path.is_file() and not set(ignored) & set(path.parents)]
    found = {str(path.relative_to(layout.local)) for path in files if contains(path.read_bytes(), value)}
    texts, table = (str(value), *(encoding.hex() for encoding in encodings(value))), ""
    for line in postgres.dump(layout).splitlines():
        table = line.split()[1] if line.startswith("COPY ") else table
        if any(text in line for text in texts):
            found.add(f"database: {table}")
    return sorted(found)


def test_an_erased_customer_is_nowhere_also_after_old_snapshots_are_replayed(own_stack: Stack) -> None:
    """Before, the customer is in data files, tables, changes that wait to be loaded, and evidence of a failed check."""
    stack = own_stack
    stack.assert_published(ERASED, land(stack, 1, 10, 10))
    assert stack.wait_for_run(ERASED, land(stack, 2, 20, 20)) == "failed", "most rows changed"
    stack.assert_published(ERASED, land(stack, 3, 10, 11))
    with stack.fault(f"{ERASED}-.*-changes-", "error", reason="backendError"):
        stack.assert_published(ERASED, land(stack, 4, 10, 12))
        assert PRODUCT in products(stack, f"{ERASED}_changes")
        for value in SECRETS:
            places = places_of(stack, value)
            for kind in ("/data/", "/changes/", "checks_before.json", "bigquery/"):
                assert any(kind in place for place in places), (value, kind)
        keys_file = stack.storage.bucket("state").blob(f"{ERASED}/to_erase/request-17.csv")
        keys_file.upload_from_string(f"customer\n{NAME}\n")
        text = stack.approve(ERASED, "erase", keys_file="request-17.csv", reason="request 17")
        assert "with these keys: **2**" in text
        assert not any(str(value) in text for value in SECRETS)
    stack.assert_published(ERASED, land(stack, 5, 10, 10))
    form = {"snapshot_id": "1", "reason": "an old snapshot with the key", "plan": "rewrite"}
    stack.assert_published(ERASED, stack.start(f"{ERASED}_publish", **form))
    assert products(stack, ERASED) == set(OTHERS)
    assert PRODUCT not in products(stack, f"{ERASED}_changes")
    stack.stand_in.pass_time(RESTORE_PERIOD)
    assert {str(value): places_of(stack, value) for value in SECRETS} == {str(value): [] for value in SECRETS}
