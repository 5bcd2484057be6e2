"""What a publish left in the ledger, as far as the demo shows it. Fields that are not named here are left alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from devstack.demo.errors import DemoFailed

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

PUBLISHED = "published"


@dataclass(frozen=True)
class Published:
    """One committed publish. `phases` are seconds by name, in the order of the record."""

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


def from_record(record: Mapping[str, Any], where: str) -> Published:
    try:
        return Published(
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
        raise DemoFailed(f"The ledger record [{where}] has no field [{error.args[0]}].") from error


def of_run(bucket: "Bucket", feed: str, run_id: str) -> Published:
    """The record of a run that has published. Raises DemoFailed when there is none."""
    blobs = sorted(bucket.client.list_blobs(bucket, prefix=f"{feed}/ledger/"), key=lambda blob: blob.name, reverse=True)
    for blob in blobs:
        record = json.loads(blob.download_as_bytes())
        if record["outcome"] == PUBLISHED and record["run_id"] == run_id:
            return from_record(record, blob.name)
    raise DemoFailed(
        f"Run [{run_id}] of [{feed}_publish] succeeded, but gs://{bucket.name}/{feed}/ledger/ has no record of it "
        f"with outcome [{PUBLISHED}] among its [{len(blobs)}] records: look at the run's last tasks."
    )
