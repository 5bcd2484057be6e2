"""Reads from the ledger what the demo shows of a publish."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from devstack.demo.airflow_api import DemoError

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

PUBLISHED = "published"


@dataclass(frozen=True)
class LedgerEntry:
    """What the demo shows of one committed publish.

    `phases`: the seconds of each phase, in the order of the ledger record. `changed_rows`: None if the publish has
    not compared values. `kept_rows`: the number of survivors.
    """

    feed: str
    snapshot_id: int
    generation: int
    run_id: str
    arrived_at: datetime
    lag_s: float
    rows: int
    new_rows: int
    changed_rows: int | None
    kept_rows: int
    phases: dict[str, float]


def parse_entry(record: Mapping[str, Any], where: str) -> LedgerEntry:
    """The entry of a ledger record. Raises DemoError, which names the object `where`, if a field is missing."""
    try:
        return LedgerEntry(
            feed=record["feed"],
            snapshot_id=int(record["snapshot_id"]),
            generation=int(record["generation"]),
            run_id=record["run_id"],
            arrived_at=datetime.fromisoformat(record["arrived_at"]),
            lag_s=float(record["lag_s"]),
            rows=int(record["rows"]),
            new_rows=int(record["new_rows"]),
            changed_rows=None if record["changed_rows"] is None else int(record["changed_rows"]),
            kept_rows=int(record["kept_rows"]),
            phases={name: float(seconds) for name, seconds in record["phases"].items()},
        )
    except KeyError as error:
        raise DemoError(f"The ledger record [{where}] has no field [{error.args[0]}].") from error


def read_entry(bucket: "Bucket", feed: str, run_id: str) -> LedgerEntry:
    """The entry of a run that has published. Raises DemoError if the ledger has none."""
    blobs = sorted(bucket.client.list_blobs(bucket, prefix=f"{feed}/ledger/"), key=lambda blob: blob.name, reverse=True)
    for blob in blobs:
        record = json.loads(blob.download_as_bytes())
        if record.get("outcome") == PUBLISHED and record.get("run_id") == run_id:
            return parse_entry(record, blob.name)
    raise DemoError(
        f"Run [{run_id}] of [{feed}_publish] succeeded, but gs://{bucket.name}/{feed}/ledger/ has no record of it "
        f"with outcome [{PUBLISHED}] among its [{len(blobs)}] records: look at the run's last tasks."
    )
