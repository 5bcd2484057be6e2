"""Command line: `python -m devstack.demo.alert_test` runs the DAG `alert_test` of the running local stack."""

import os
import sys
import time

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.deployment import PROFILE_VARIABLE, read_deployment
from devstack.connection import connect
from devstack.demo.airflow_api import AirflowApi, DemoError
from devstack.stack.layout import Layout
from devstack.stack.stack_errors import StackError

DAG = "alert_test"
PROFILE = "local"
POLL_INTERVAL_S = 1.0
TIMEOUT_S = 300.0
REASON = "AlertNotSent: "  # prefix of the line in a task's log that says who was not told


def main() -> int:
    """Returns the exit status: 0 if every notifier took the alert and its recovery, or if there is none to test."""
    try:
        profiles = Layout.from_environment(os.environ).dags_folder / "profiles"
        alerts = read_deployment(profiles, {PROFILE_VARIABLE: PROFILE}).alerts
        if not alerts.webhooks and not alerts.notifiers:
            print(
                f"[{profiles / PROFILE}.yaml] names nobody who is told of incidents, as is usual on a laptop: alerts "
                "are only written to the log of the DAG [freshness_watchdog]. To try a webhook: docs/alerting.md."
            )
            return 0
        airflow = AirflowApi(connect())
        run_id = airflow.trigger(DAG)
        if run_id is None:
            raise DemoError(f"Airflow does not know the DAG [{DAG}] yet: try again in a minute.")
        print(f"Sending: {airflow.run_page(DAG, run_id)}")
        _wait_for_success(airflow, run_id)
    except (DemoError, StackError, ConfigurationError) as error:
        print(f"alert-test: {error}", file=sys.stderr)
        return 1
    print("Sent: an alert and its recovery, to everybody whom the profile names.")
    return 0


def _wait_for_success(airflow: AirflowApi, run_id: str) -> None:
    """Raises DemoError with the reason in the log if the run fails, or if it does not end in time."""
    deadline = time.monotonic() + TIMEOUT_S
    while (state := airflow.run_state(DAG, run_id)) not in ("success", "failed"):
        if time.monotonic() > deadline:
            raise DemoError(f"the run has not ended within {TIMEOUT_S:.0f} s: is its worker alive (`make status`)?")
        time.sleep(POLL_INTERVAL_S)
    if state == "failed":
        lines = [line for task in airflow.tasks(DAG, run_id) for line in airflow.log_lines(DAG, run_id, task)]
        reasons = dict.fromkeys(line for line in lines if line.startswith(REASON))
        raise DemoError(" ".join(reasons) or "the run failed without a reason: open it in Airflow.")


if __name__ == "__main__":
    sys.exit(main())
