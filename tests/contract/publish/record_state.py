"""Records the state that this release leaves, for the tests of later releases: `make record-state`.

Run it once for each release, when its version is set. It writes `former_states/VERSION.json`, with all objects of one
feed after two publishes, a refused delivery, a rollback, a publish, an audit, and a publish that has swapped but has
not been committed. For an earlier release, copy this file into a checkout of that release.
"""

from __future__ import annotations

import base64
import json
import tempfile
from datetime import date
from pathlib import Path

from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

import dedup_clone
from dedup_clone.audit.choose_partitions import choose_partitions
from dedup_clone.audit.compare_fingerprints import compare_fingerprints
from dedup_clone.audit.fingerprint_files import fingerprint_files
from dedup_clone.audit.fingerprint_target import fingerprint_target
from dedup_clone.contract.errors import DedupCloneError
from dedup_clone.publish.recovery import recover
from dedup_clone.settings.feed import read_feed
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn, row
from testkit.server_clients import open_clients

STATES = Path(__file__).parent / "former_states"
DAY, DAY_BEFORE = date(2026, 11, 23), date(2026, 11, 22)
RETENTION_DAYS = 3650  # so that BigQuery does not expire the recorded rows while the tests are in use
FEED = "recorded"
# THIRD: the rows of generation 3. ROWS: those of generation 6, the newest.
THIRD = [row(9, 1, 21, day=DAY), row(9, 2, day=DAY_BEFORE)]
ROWS = [row(7, 2, day=DAY_BEFORE), row(11, 1, 23, day=DAY), row(10, 3, day=DAY)]


def recorded_feed(storage: Storage, bigquery: BigQuery) -> FeedOnStandIn:
    """The worked example's feed under the name FEED."""
    shipped = read_feed(REPOSITORY / "dags" / "feeds" / "worked_example.yaml")
    changes = {
        "feed": FEED,
        "landing": shipped.landing.model_copy(update={"prefix": FEED}),
        "table": shipped.table.model_copy(update={"retention_days": RETENTION_DAYS}),
    }
    return FeedOnStandIn(shipped.model_copy(update=changes), storage, bigquery)


def audit(world: FeedOnStandIn, run_id: str) -> None:
    """Compare partitions of target with the files of the live generation, as the audit DAG does."""
    found = fingerprint_target(world.services, choose_partitions(world.services, None).dates, run_id)
    files = {p.date: fingerprint_files(world.services, p.generation, p.date) for p in found if p.found}
    compare_fingerprints(world.services, found, files)


def make_state(world: FeedOnStandIn) -> None:
    """Publish, refuse, roll back and audit as the module's docstring says."""
    world.publish(world.land(7, [row(7, 1, day=DAY), row(7, 2, day=DAY_BEFORE)]))
    world.dedup.refused_ids = {8}
    try:
        world.publish(world.land(8, [row(8, 1, day=DAY)]))
    except DedupCloneError:
        recover(world.services, dag_id="other", run_id="other")
    world.publish(world.land(9, THIRD))
    world.roll_back(1)
    world.publish(world.land(10, [row(10, 3, day=DAY)]))
    audit(world, "audit-1")
    spec = world.resolve(world.land(11, [row(11, 1, 23, day=DAY)]))
    world.dedup.run(spec.request_uri)
    world.load(spec)
    world.swap(spec, world.check(spec))


def objects_of(storage: Storage) -> dict[str, dict[str, str]]:
    """The content of the feed's objects in state, by name: text as it is, other content in Base64."""
    found = {}
    for blob in storage.list_blobs("state"):
        if blob.name.startswith((f"{FEED}/", f"_status/{FEED}.", f"_freshness/{FEED}.")):
            content = blob.download_as_bytes()
            is_text = not blob.name.endswith((".parquet", ".bin", "fingerprint_seed"))
            data = {"text": content.decode()} if is_text else {"base64": base64.b64encode(content).decode()}
            found[blob.name] = data
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, open_clients(Path(folder)) as clients:
        make_state(recorded_feed(*clients))
        objects = objects_of(clients[0])
    STATES.mkdir(exist_ok=True)
    path = STATES / f"{dedup_clone.__version__}.json"
    path.write_text(json.dumps({"objects": objects}, indent=1) + "\n", encoding="utf-8")
    print(f"{len(objects)} objects of release {dedup_clone.__version__} are in {path}")


if __name__ == "__main__":
    main()
