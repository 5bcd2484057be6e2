"""Starts the BigQuery stand-in: `python -m bigquery_standin --host 127.0.0.1 --port 9050 --data DIR`.

It serves BigQuery's REST API and, on another port, the Storage Write API by gRPC.
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace
from pathlib import Path

import uvicorn

from bigquery_standin.jobs.load_job import UPDATES_PER_10_S
from bigquery_standin.rest.application import create_application
from bigquery_standin.stand_in import open_stand_in
from bigquery_standin.write_api.server import WriteApiServer

# Requests that BigQuery does not have.
EPILOG = """\
requests that BigQuery does not have (DELETE removes all grants or faults):
  GET  /_standin/health    the address of the Storage Write API
  POST /_standin/clock     {"advance_seconds": 86400}
  POST /_standin/grants    {"member": "user:a@example.com", "permission": "bigquery.connections.use"}
                           a caller is the bearer token, read as an email address
  POST /_standin/faults    {"match": {"path": ".*/jobs"}, "effect": "error", "status": 503, "nth": 1, "times": 1}
                           match: method and path of REST requests, or job_type and job_id of jobs
                           jobs have the effects delay and queue, too, with [seconds]
"""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bigquery_standin",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9050)
    parser.add_argument(
        "--grpc-port",
        type=int,
        default=0,
        help="of the Storage Write API; 0: any free one, which GET /_standin/health returns",
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of all tables and jobs")
    parser.add_argument(
        "--updates-per-10-s",
        type=int,
        default=UPDATES_PER_10_S,
        help="of a table without partitions: what a load job counts before it is refused",
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stand_in = open_stand_in(arguments.data, arguments.updates_per_10_s)
    write_api = WriteApiServer(stand_in, arguments.host, arguments.grpc_port)
    stand_in = replace(stand_in, write_api_address=write_api.address)
    write_api.start()
    stand_in.background.start()
    try:
        uvicorn.run(
            create_application(stand_in),
            host=arguments.host,
            port=arguments.port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=2,
        )
    finally:
        write_api.stop()
        stand_in.background.stop()


if __name__ == "__main__":
    main()
