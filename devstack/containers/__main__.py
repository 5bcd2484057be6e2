"""Prepares and checks the containers: `python -m devstack.containers files | stores | healthy URL [--part NAME]`."""

import argparse
import os
import sys

from devstack.http_calls import Unreachable, call
from devstack.stack.stack_errors import StackError

HEALTH_TIMEOUT_S = 5.0


def is_healthy(url: str, airflow_part: str | None = None) -> bool:
    """Whether `url` answers and, if `airflow_part` is given, says that this part of Airflow is healthy."""
    try:
        answer = call("GET", url, timeout_s=HEALTH_TIMEOUT_S)
    except Unreachable:
        return False
    if not answer.ok or airflow_part is None:
        return answer.ok
    part = answer.json().get(airflow_part) or {}
    return bool(part.get("status") == "healthy")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.containers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("files", help="make secrets, folders and logins, before anything starts")
    verbs.add_parser("stores", help="make buckets and dataset, once storage and the stand-in are up")
    healthy = verbs.add_parser("healthy", help="exit with 0 if a server is healthy")
    healthy.add_argument("url", help="the server's health endpoint")
    healthy.add_argument("--part", help="a part of Airflow that the answer must call healthy, too")
    options = parser.parse_args(arguments)
    if options.verb == "healthy":
        return 0 if is_healthy(options.url, options.part) else 1
    # Imported here, because the health checks, which run every few seconds, do not need these modules.
    from devstack.containers import prepare
    from devstack.stack.layout import Layout

    layout = Layout.from_environment(os.environ)
    try:
        if options.verb == "files":
            prepare.prepare_files(layout, os.environ)
        else:
            prepare.prepare_stores(layout, os.environ)
    except (StackError, Unreachable) as error:
        print(f"containers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
