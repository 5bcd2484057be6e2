"""The command line: runs the job, with Spark if it is needed, and turns failures into one last clear line."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys

from dedup_clone.contract.errors import DedupCloneError
from dedup_spark.failures import cause
from dedup_spark.job import DedupJob
from dedup_spark.orders import read_request
from dedup_spark.progress import Facts
from dedup_spark.session import LazySpark

log = logging.getLogger("dedup_spark")

# How a stored procedure of BigQuery hands over its argument `request`, as JSON: it has no command line.
PROCEDURE_ARGUMENT = "BIGQUERY_PROC_PARAM.request"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dedup_snapshot.py", description="Deduplicate deliveries into a generation.")
    given = json.loads(os.environ.get(PROCEDURE_ARGUMENT, "null"))
    parser.add_argument(
        "--request", required=given is None, default=given, metavar="URI", help="request.json, gs://… or a path"
    )
    uri = parser.parse_args(arguments).request
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = LazySpark(f"dedup {uri}")
    try:
        request = read_request(uri)
        DedupJob(request, spark, Facts(request)).run()
        return 0
    except (DedupCloneError, OSError) as error:
        log.error("dedup of [%s] failed, nothing was published: %s", uri, error)
    except Exception as error:  # whatever Spark or a cloud client raises: the operator still gets one line
        log.exception("the failure in full:")
        log.error("dedup of [%s] failed, nothing was published: %s", uri, f"{cause(error)}; see above, then retry")
    finally:
        spark.stop()
    return 1
