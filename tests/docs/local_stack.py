"""The servers of the local stack that clients talk to, without Airflow, and the blocks of a page that use them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dedup_clone.settings.feed import Feed, read_feed
from devstack.connection import Connection
from devstack.stack import client_config
from devstack.stack.layout import Layout
from devstack.stack.parts import Part, bigquery, fake_gcs, gcloud_proxy
from devstack.stack.ports import Ports, any_free_port
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row
from testkit.local_servers import start_process, stop_process
from tests.docs.pages import DOCS, ROOT


@dataclass(frozen=True)
class LocalStack:
    """`folder` takes the place of the checkout: it has `.local`, with stack.env and the servers' data."""

    folder: Path
    connection: Connection
    environment: dict[str, str]

    def feed(self, name: str = "product_attributes") -> FeedOnStandIn:
        """A feed with the columns of the worked example."""
        shipped = read_feed(ROOT / "dags" / "feeds" / "worked_example.yaml")
        changes = {"feed": name, "landing": shipped.landing.model_copy(update={"prefix": name}), "changes": True}
        feed: Feed = shipped.model_copy(update=changes)
        return FeedOnStandIn(feed, self.connection.storage_client(), self.connection.bigquery_client())

    def publish_two_snapshots(self) -> FeedOnStandIn:
        """The second one has another value of a row of yesterday, and a new row."""
        feed = self.feed()
        feed.publish(feed.land(1, [row(1, 1), row(1, 2, day=YESTERDAY)]))
        feed.publish(feed.land(2, [row(2, 1), row(2, 2, 30, day=YESTERDAY), row(2, 3, day=TODAY)]))
        feed.write_reporting_tables()
        return feed


@contextmanager
def start_local_stack(folder: Path) -> Iterator[LocalStack]:
    layout = Layout.from_environment({}, folder)
    layout.make_folders()
    free: list[int] = []
    for _ in Ports.__dataclass_fields__:
        free.append(any_free_port(free))
    ports = Ports(*free)
    client_config.write(layout, ports)
    variables = client_config.read(layout.stack_env)
    with ExitStack() as stack:
        for part in (fake_gcs(layout, ports), gcloud_proxy(ports), bigquery(layout, ports)):
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
