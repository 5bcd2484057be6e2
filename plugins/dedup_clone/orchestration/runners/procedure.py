"""Runner `bigquery_procedure`: one BigQuery job creates and calls a stored procedure for Apache Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_clone.orchestration.runners.spark_run import CALL, SparkJobSpec, SparkRun, SparkRunState
from dedup_clone.settings.deployment import Deployment
from dedup_clone.warehouse.sql_files import environment

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

SCRIPT = "engines/spark/dedup_procedure.sql.jinja"


class ProcedureRunner:
    """Jobs of the profile's project and location. `feed`: its name is in that of the procedure."""

    def __init__(self, client: Callable[[], Client], profile: Deployment, feed: str, sql_folder: Path) -> None:
        self._client = client
        self._location: dict[str, Any] = {"project": profile.project, "location": profile.location}
        self._procedure = f"{profile.project}.{profile.dataset}.dedup_clone_{feed}"
        self._settings = profile.spark
        self._sql_folder = sql_folder

    def get_run(self, name: str) -> SparkRun | None:
        from google.api_core.exceptions import NotFound

        try:
            job: Any = self._client().get_job(name, **self._location, **CALL)
        except NotFound:
            return None
        error = job.error_result or {}
        lasted_s = (job.ended - job.started).total_seconds() if job.ended and job.started else None
        return SparkRun(name, _state(job.state, error), error.get("message", ""), job.created, lasted_s=lasted_s)

    def submit(self, name: str, spec: SparkJobSpec) -> None:
        from google.api_core.exceptions import Conflict
        from google.cloud.bigquery import QueryJob

        reference = {"projectId": self._location["project"], "jobId": name, "location": self._location["location"]}
        job: Any = QueryJob.from_api_repr(
            {"jobReference": reference, "configuration": self.configuration(spec)}, self._client()
        )
        with suppress(Conflict):  # it exists, by a request whose answer was lost
            job._begin(**CALL)  # client.query also calls this, but offers fewer fields of the REST API

    def cancel(self, name: str) -> None:
        from google.api_core.exceptions import NotFound

        with suppress(NotFound):
            self._client().cancel_job(name, **self._location, **CALL)

    def configuration(self, spec: SparkJobSpec) -> dict[str, Any]:
        """The job's configuration in the API's format."""
        parameter = {
            "name": "request",
            "parameterType": {"type": "STRING"},
            "parameterValue": {"value": spec.request_uri},
        }
        return {
            "query": {"query": self.script(spec), "useLegacySql": False, "queryParameters": [parameter]},
            "labels": dict(spec.labels),
            "jobTimeoutMs": str(spec.ttl_s * 1000),
        }

    def script(self, spec: SparkJobSpec) -> str:
        """SQL that creates and calls the procedure. Options are literals, because they must not be query parameters."""
        template = environment(self._sql_folder).get_template(SCRIPT)
        return template.render(
            procedure=f"`{self._procedure}`",
            connection=f"`{self._settings.procedure_connection}`",
            runtime_version=self._settings.runtime_version,
            spec=spec,
            # Every escape in JSON text is valid in GoogleSQL text too, except the surrogate pairs of ensure_ascii=True.
            literal=partial(json.dumps, ensure_ascii=False),
        )


def _state(state: str, error: dict[str, Any]) -> SparkRunState:
    if state != "DONE":
        return SparkRunState.ACTIVE
    if not error:
        return SparkRunState.SUCCEEDED
    return SparkRunState.CANCELLED if error.get("reason") == "stopped" else SparkRunState.FAILED
