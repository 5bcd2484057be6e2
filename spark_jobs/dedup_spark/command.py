"""The command line: starts Spark beside the examination, runs the job, turns failures into one last clear line."""

from __future__ import annotations

import argparse
import logging
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module

from pyspark.sql import SparkSession

from dedup_clone.contract.errors import DedupCloneError
from dedup_spark.failures import cause
from dedup_spark.job import DedupJob
from dedup_spark.orders import read_request
from dedup_spark.progress import Facts
from dedup_spark.session import start_session

log = logging.getLogger("dedup_spark")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dedup_snapshot.py", description="Deduplicate deliveries into a generation.")
    parser.add_argument("--request", required=True, metavar="URI", help="request.json, gs://… or a path")
    uri = parser.parse_args(arguments).request
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with ThreadPoolExecutor(1) as starter:
        session = starter.submit(start_session, f"dedup {uri}")
        try:
            import_module("pandas")  # PySpark asks for it later: two seconds that pass while the JVM starts
            request = read_request(uri)
            DedupJob(request, session.result, Facts(request)).run()
            return 0
        except (DedupCloneError, OSError) as error:
            log.error("dedup of [%s] failed, nothing was published: %s", uri, error)
        except Exception as error:  # whatever Spark or a cloud client raises: the operator still gets one line
            log.exception("the failure in full:")
            log.error("dedup of [%s] failed, nothing was published: %s", uri, f"{cause(error)}; see above, then retry")
        finally:
            _stop(session)
    return 1


def _stop(session: Future[SparkSession]) -> None:
    """Also a session that the job never needed: Spark is not left behind."""
    if session.exception() is None:
        session.result().stop()
