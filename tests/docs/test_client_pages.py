"""Blocks of the pages run on the servers of the local stack: those for clients as they stand, and all SQL."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dedup_clone.settings.feed import read_feed
from devstack.connection import Connection
from devstack.stack import client_config
from devstack.stack.layout import Layout
from devstack.stack.parts import Part, bigquery, fake_gcs
from devstack.stack.ports import Ports, any_free_port
from testkit.dedup_job import parquet_bytes
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row, today
from testkit.local_servers import start_process, stop_process
from testkit.zetasql import ZetaSql
from tests.docs.pages import DOCS, PAGES, ROOT
from tests.shared.required_tools import require

NAMES = {
    "{{ staging }}": "warehouse.product_attributes_staging",
    "DATASET.TABLE": "warehouse.product_attributes",
    "DATASET.": "warehouse.",
    "FEED": "product_attributes",
    "region-LOCATION": "region-us",
    "OPTIONS (...)": "OPTIONS ()",  # how-it-works.md leaves them out
}
# What is not run on the stand-in, and why. Google's grammar takes it all the same.
NOT_RUN = {
    "DROP TABLE warehouse.product_attributes;": "feeds.md: the table of another feed, which does not exist",
    "CREATE OR REPLACE TABLE": "how-it-works.md: a picture of the swap, which has other names",
    "SELECT order_id": "feed-file.md: a feed that does not exist",
}


def statements() -> list[tuple[str, str]]:
    """Each SQL block and each statement of a command `bq query`, with names in place of placeholders."""
    found = []
    for page in PAGES:
        text = page.read_text()
        sql = re.findall(r"^ *```sql\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
        for statement in [*sql, *re.findall(r"bq query [^']*'([^']*)'", text)]:
            for placeholder, name in NAMES.items():
                statement = statement.replace(placeholder, name)
            found.append((page.name, " ".join(statement.split())))
    return found


STATEMENTS = statements()
RUN = [(page, sql) for page, sql in STATEMENTS if not sql.startswith(tuple(NOT_RUN))]


@dataclass(frozen=True)
class LocalStack:
    """`folder` takes the place of the checkout: it has `.local`, with stack.env and the servers' data."""

    folder: Path
    connection: Connection
    environment: dict[str, str]

    def publish_two_snapshots(self) -> None:
        """Of a feed like the worked example. The second has another value of a row of yesterday, and a new row."""
        yesterday = today() - timedelta(days=1)
        shipped = read_feed(ROOT / "dags" / "feeds" / "worked_example.yaml")
        name = "product_attributes"
        changes = {"feed": name, "landing": shipped.landing.model_copy(update={"prefix": name}), "changes": True}
        feed = FeedOnStandIn(
            shipped.model_copy(update=changes), self.connection.storage_client(), self.connection.bigquery_client()
        )
        feed.publish(feed.land(1, [row(1, 1), row(1, 2, day=yesterday)]))
        feed.publish(feed.land(2, [row(2, 1), row(2, 2, 30, day=yesterday), row(2, 3, day=today())]))
        feed.write_reporting_tables()


@contextmanager
def start_local_stack(folder: Path) -> Iterator[LocalStack]:
    layout = Layout({}, folder)
    layout.make_folders()
    free: list[int] = []
    for _ in Ports.__dataclass_fields__:
        free.append(any_free_port(free))
    ports = Ports(*free)
    client_config.write(layout, ports)
    variables = client_config.read(layout.stack_env)
    with ExitStack() as stack:
        for part in (fake_gcs(layout, ports), bigquery(layout, ports)):
            stack.callback(stop_process, _start(part, folder, variables))
        connection = Connection.from_variables(variables)
        storage, warehouse = connection.storage_client(), connection.bigquery_client()
        for bucket in (connection.landing_bucket, connection.state_bucket):
            storage.create_bucket(bucket)
        warehouse.create_dataset(connection.dataset)
        # A tool must not find credentials or settings of the person who runs the tests.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("CLOUDSDK_", "GOOGLE_"))}
        yield LocalStack(folder, connection, {**own, **variables, "HOME": str(folder)})


def _start(part: Part, folder: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    environment = {**part.environment, "STORAGE_EMULATOR_HOST": variables["STORAGE_EMULATOR_HOST"]}
    return start_process(part.command, part.health_url, folder / f"{part.name}.log", environment)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page of docs/ in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with start_local_stack(tmp_path_factory.mktemp("local stack")) as started:
        started.publish_two_snapshots()
        yield started


@pytest.fixture
def here(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was started in a shell with the stack's settings."""
    monkeypatch.chdir(stack.folder)
    for name, value in stack.environment.items():
        monkeypatch.setenv(name, value)


def run(page: str) -> dict[str, Any]:
    """Run the page's Python blocks one after the other, and return their names."""
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
    return names


@pytest.mark.usefixtures("here")
def test_a_notebook_sees_freshness_one_state_and_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("read-the-table.md")
    assert (names["status"].snapshot_id, names["status"].generation, names["status"].restores) == (2, 2, None)
    assert names["labels"]["dedup_clone_snapshot"] == "2"
    assert (names["total"].n, names["status"].arrived_at < names["now"].time) == (3, True)
    assert names["changed"] == {(2, 2072, 1): (20, 30)}
    assert {"changed 2 20 30", "new 3 None 20"} <= set(capsys.readouterr().out.splitlines())


@pytest.mark.usefixtures("here")
def test_python_and_duckdb_read_landing_and_table_and_write_a_snapshot(
    stack: LocalStack, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run("tutorial.md")
    copies = list((stack.folder / "my_snapshot").glob("date=*/*.parquet"))
    assert {i for file in copies for i in pq.ParquetFile(file).read()["update_id"].to_pylist()} == {9001}
    assert len(copies) == len(
        list((stack.folder / ".local/gcs/landing/product_attributes/snapshot_id=2").glob("*/*.parquet"))
    )
    shutil.rmtree(stack.folder / "my_snapshot")
    bucket = stack.connection.storage_client().bucket("landing")
    landed = list(bucket.list_blobs(prefix="product_attributes/snapshot_id=9001/"))
    assert landed[0].name.endswith("/_SUCCESS")
    assert len(landed) == len(copies) + 1
    bucket.delete_blobs(landed)  # the other tests know of two snapshots
    assert names["rows"].num_rows == 3
    assert "2072" in capsys.readouterr().out


def test_the_command_line_tools_copy_list_and_query(stack: LocalStack) -> None:
    for tool in ("gcloud", "bq"):
        require(tool, "https://cloud.google.com/sdk/docs/install")
    (block,) = [block for block in blocks("tutorial.md", "bash") if "gcloud" in block]
    block = "set -a; . .local/stack.env; set +a\n" + block
    file = stack.folder / "my_snapshot" / "date=2026-11-20" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(parquet_bytes([row(9001, 1, day=TODAY - timedelta(days=3))]))
    environment = {name: value for name, value in stack.environment.items() if name in ("HOME", "PATH")}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", block],
        cwd=stack.folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NoneType" not in done.stderr
    assert "snapshot_id=9001/date=2026-11-20/part-0.parquet" in done.stdout
    bucket = stack.connection.storage_client().bucket("landing")
    landed = list(bucket.list_blobs(prefix="product_attributes/snapshot_id=9001/"))
    assert [blob.name.rpartition("/")[2] for blob in landed] == ["_SUCCESS", "part-0.parquet"]
    bucket.delete_blobs(landed)  # the other tests know of two snapshots
    assert "dedup_clone_generation:2" in done.stdout


@pytest.mark.parametrize(("page", "sql"), RUN, ids=[f"{page}-{sql[:30]}" for page, sql in RUN])
def test_the_sql_of_the_pages_runs(stack: LocalStack, page: str, sql: str) -> None:
    job = stack.connection.bigquery_client().query(sql)
    job.result()
    assert (job.state, job.errors) == ("DONE", None)


def test_googles_grammar_takes_the_sql_of_the_pages(zetasql: ZetaSql) -> None:
    assert len(STATEMENTS) == len(RUN) + len(NOT_RUN) > 5
    assert {sql: fault for _, sql in STATEMENTS if (fault := zetasql.check(sql)) is not None} == {}
