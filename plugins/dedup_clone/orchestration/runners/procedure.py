"""Runner `bigquery_procedure`: a BigQuery stored procedure for Apache Spark, made and called by one job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_clone.orchestration.runners.advice import Adviser
from dedup_clone.orchestration.runners.cloud_calls import briefly, calling
from dedup_clone.orchestration.runners.spark_run import CONSOLE, RunState, SparkOrder, SparkRun
from dedup_clone.settings.spark import SparkSettings

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

SCRIPT = "engines/spark/dedup_procedure.sql.jinja"


class ProcedureRuns:
    """Jobs of one project and location that call `procedure` (`project.dataset.name`)."""

    def __init__(
        self,
        client: Callable[[], Client],
        *,
        project: str,
        location: str,
        procedure: str,
        settings: SparkSettings,
        sql_folder: Path,
    ) -> None:
        self._client = client
        self._adviser = Adviser(project, settings)
        self._place: dict[str, Any] = {"project": project, "location": location}
        self._procedure = procedure
        self._settings = settings
        self._sql_folder = sql_folder

    def look(self, name: str) -> SparkRun | None:
        from google.api_core.exceptions import NotFound

        job: Any = None
        with calling(self._adviser, f"BigQuery job [{name}]", NotFound):
            job = self._client().get_job(name, **self._place, **briefly())
        if job is None:
            return None
        error = job.error_result or {}
        return SparkRun(name, _state(job.state, error), error.get("message", ""), self._addresses(name))

    def submit(self, name: str, order: SparkOrder) -> None:
        from google.api_core.exceptions import Conflict
        from google.cloud.bigquery import QueryJob

        reference = {"projectId": self._place["project"], "jobId": name, "location": self._place["location"]}
        job: Any = QueryJob.from_api_repr(
            {"jobReference": reference, "configuration": self.configuration(order)}, self._client()
        )
        with calling(self._adviser, f"BigQuery job [{name}]", Conflict):  # made by a call whose answer was lost
            job._begin(**briefly())  # what client.query ends in; it knows less of the REST API

    def cancel(self, name: str) -> None:
        from google.api_core.exceptions import NotFound

        with calling(self._adviser, f"BigQuery job [{name}]", NotFound):  # never made
            self._client().cancel_job(name, **self._place, **briefly())

    def clean(self, name: str) -> None:
        """The procedure stays for the next run, which replaces it; a job that is over costs nothing."""

    def configuration(self, order: SparkOrder) -> dict[str, Any]:
        """The job as the API names it."""
        parameter = {
            "name": "request",
            "parameterType": {"type": "STRING"},
            "parameterValue": {"value": order.request_uri},
        }
        return {
            "query": {"query": self.script(order), "useLegacySql": False, "queryParameters": [parameter]},
            "labels": dict(order.labels),
            "jobTimeoutMs": str(order.limit_s * 1000),
        }

    def script(self, order: SparkOrder) -> str:
        """Makes and calls the procedure. Options cannot be query parameters: they are written as string literals."""
        import jinja2

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(self._sql_folder), undefined=jinja2.StrictUndefined
        )
        return environment.get_template(SCRIPT).render(
            procedure=f"`{self._procedure}`",
            connection=f"`{self._settings.procedure_connection}`",
            runtime_version=self._settings.runtime_version,
            order=order,
            literal=json.dumps,  # JSON's escapes are among those of GoogleSQL
        )

    def _addresses(self, name: str) -> dict[str, str]:
        job = f"bq:{self._place['location']}:{name}"
        page = f"{CONSOLE}/bigquery?project={self._place['project']}&j={job}&page=queryresults"
        return {"run": page, "log": page}


def _state(state: str, error: dict[str, Any]) -> RunState:
    if state != "DONE":
        return RunState.ACTIVE
    if not error:
        return RunState.ENDED_WELL
    return RunState.CANCELLED if error.get("reason") == "stopped" else RunState.FAILED
