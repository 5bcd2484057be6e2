"""The trigger form of the backfill DAG, and the request that a filled form makes."""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.orchestration.shared.form_fields import required_reason
from dedup_clone.publish.backfill.archived_snapshots import BackfillRequest


def backfill_params() -> dict[str, Param]:
    return {
        "archive": Param(
            "",
            type="string",
            pattern=r"\S",
            title="Archive",
            description="The folder of the archived snapshots, such as gs://BUCKET/FOLDER, laid out like landing: "
            "snapshot_id=N/ with data files and marker.",
        ),
        "first_id": Param(
            None, type=["null", "integer"], minimum=0, title="First snapshot id", description="Empty: from the oldest."
        ),
        "last_id": Param(
            None, type=["null", "integer"], minimum=0, title="Last snapshot id", description="Empty: to the newest."
        ),
        "at_once": Param(
            1,
            type="integer",
            minimum=1,
            maximum=10,
            title="Snapshots in one publish",
            description="Landed together and published as one generation: fewer publishes, but readers do not see each "
            "snapshot by itself.",
        ),
        "pause_minutes": Param(
            30,
            type="integer",
            minimum=0,
            title="Pause (minutes)",
            description="The least time from one landing to the next, so that a delivery that arrives in between is "
            "not held up.",
        ),
        "reason": required_reason("Why the archive is published; shown to whoever approves it."),
    }


def read_backfill_request(context: Context) -> BackfillRequest:
    params = context["params"]
    return BackfillRequest(
        archive=params["archive"],
        first_id=params["first_id"],
        last_id=params["last_id"],
        at_once=params["at_once"],
        pause_minutes=params["pause_minutes"],
    )
