"""A client for the parts of Airflow's REST API that are needed to follow a publish."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from devstack.connection import Connection
from devstack.http_calls import Answer, Unreachable, call

_NOT_FOUND = 404
_UNAUTHORIZED = 401


class DemoError(Exception):
    """The demo cannot go on. The message is shown to the user, and says where to look."""


@dataclass(frozen=True)
class Task:
    """One task instance of a DAG run. `state`: None before Airflow has scheduled it.

    `try_number`: the number of the last try. `map_index`: -1 for a task that is not mapped.
    """

    task_id: str
    state: str | None
    try_number: int
    map_index: int


class AirflowApi:
    """The client. It logs in at the first request, and again when its token has expired.

    Methods that send a request raise DemoError if Airflow does not answer, or answers with an error other than 404.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._token = ""

    def _login(self) -> None:
        body = {"username": self._connection.airflow_user, "password": self._connection.airflow_password}
        answer = self._send("POST", f"{self._connection.airflow_url}/auth/token", body)
        if not answer.ok:
            raise DemoError(
                f"Airflow at [{self._connection.airflow_url}] refused the login of [{body['username']}]: "
                f"found status [{answer.status}], expected [201]. Is another Airflow on that port?"
            )
        self._token = answer.json()["access_token"]

    def _send(self, method: str, url: str, body: Any = None) -> Answer:
        try:
            return call(method, url, body=body, token=self._token, timeout_s=30.0)
        except Unreachable as error:
            raise DemoError(f"Airflow does not answer: {error}. `make up` starts what has stopped.") from error

    def get(self, path: str) -> Any:
        """The JSON of the answer, or None for status 404."""
        url = f"{self._connection.airflow_url}/api/v2/{path}"
        answer = self._send("GET", url)
        if answer.status == _UNAUTHORIZED:
            self._login()
            answer = self._send("GET", url)
        if answer.status == _NOT_FOUND:
            return None
        if not answer.ok:
            raise DemoError(f"[{url}] answered status [{answer.status}], expected [200]: {answer.text[:300]}")
        return answer.json()

    def is_paused(self, dag_id: str) -> bool | None:
        """Whether the DAG is paused; None if Airflow does not know it yet."""
        dag = self.get(f"dags/{quote(dag_id)}")
        return None if dag is None else bool(dag["is_paused"])

    def import_errors(self) -> list[str]:
        """For each DAG file that cannot be imported: its name, and the last line of the stack trace."""
        answer = self.get("importErrors")
        return [
            f"{error['filename']}: {(error['stack_trace'].strip() or 'no stack trace').splitlines()[-1]}"
            for error in ([] if answer is None else answer["import_errors"])
        ]

    def run_state(self, dag_id: str, run_id: str) -> str | None:
        """The state of a DAG run; None if there is no such run yet."""
        run = self.get(_run_path(dag_id, run_id))
        return None if run is None else str(run["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        """The task instances of a run; none if there is no such run yet."""
        answer = self.get(f"{_run_path(dag_id, run_id)}/taskInstances?limit=100")
        instances = [] if answer is None else answer["task_instances"]
        return [Task(i["task_id"], i["state"], i["try_number"], i["map_index"]) for i in instances]

    def log_lines(self, dag_id: str, run_id: str, task: Task) -> list[str]:
        """The lines of the log of the task's last try."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task.task_id)}/logs/{task.try_number}"
        answer = self.get(f"{path}?map_index={task.map_index}&full_content=true")
        content = [] if answer is None else answer["content"]
        return [line for event in content for line in _lines_of_event(event)]

    def run_page(self, dag_id: str, run_id: str, task: Task | None = None) -> str:
        """The URL of the run, or of one of its tasks, in Airflow's web interface."""
        page = f"{self._connection.airflow_url}/dags/{dag_id}/runs/{quote(run_id)}"
        return page if task is None else f"{page}/tasks/{task.task_id}"


def _run_path(dag_id: str, run_id: str) -> str:
    return f"dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"


def _lines_of_event(event: Any) -> list[str]:
    """The lines of one event of a task's log. Airflow returns an event as a text, or as an object with exceptions."""
    if not isinstance(event, dict):
        return str(event).splitlines()
    lines = [f"{event.get('level') or ''} {event.get('event') or ''}".strip()]
    lines += [f"{detail.get('exc_type')}: {detail.get('exc_value')}" for detail in event.get("error_detail") or []]
    return [line for text in lines for line in text.splitlines()]
