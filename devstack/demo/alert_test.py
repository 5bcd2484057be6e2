"""Command line: `python -m devstack.demo.alert_test` triggers the DAG `alert_test` of the running local stack."""

import sys

from devstack.connection import connect
from devstack.demo.airflow_api import AirflowApi, DemoError
from devstack.stack.stack_errors import StackError

DAG = "alert_test"


def main() -> int:
    """Returns the exit status: 0 if a run was started."""
    try:
        airflow = AirflowApi(connect())
        run_id = airflow.trigger(DAG)
    except (DemoError, StackError) as error:
        print(f"alert-test: {error}", file=sys.stderr)
        return 1
    if run_id is None:
        print(f"alert-test: Airflow does not know the DAG [{DAG}] yet: try again in a minute.", file=sys.stderr)
        return 1
    print(f"Started. It fails if a notifier fails, or if the profile names none: {airflow.run_page(DAG, run_id)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
