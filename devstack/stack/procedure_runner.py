"""Makes the local stack ready for feeds with `runner: bigquery_procedure`.

This runner lets BigQuery run the Spark job. So the job's code is uploaded, as a release would upload it, the URIs of
its objects are written to a file, and the caller gets the permissions on the stand-in's connection for Spark.
"""

import json
import urllib.parse
from pathlib import Path

from devstack.http_calls import Answer, call
from devstack.spark_archive import ARCHIVE_FILE, MAIN_FILE, build_spark_code
from devstack.stack.layout import CHECKOUT
from devstack.stack.names_and_logins import STATE_BUCKET
from devstack.stack.stack_errors import StackError

_CALLER = "user:stand-in@local.invalid"  # whom the stand-in takes for the caller of a request without a token
_PERMISSIONS = ("bigquery.connections.delegate", "bigquery.connections.use")


def prepare(gcs_url: str, bigquery_url: str, spark_code_file: Path) -> None:
    """Upload the code, write its URIs to `spark_code_file`, and grant the permissions.

    Raises StackError if a server refuses a request, and Unreachable if one does not respond.
    """
    code = build_spark_code(CHECKOUT)
    files = {"main": (MAIN_FILE, code.main), "archive": (ARCHIVE_FILE, code.archive)}
    names = {key: f"code/{code.digest}/{name}" for key, (name, _) in files.items()}
    for key, (_, content) in files.items():
        query = urllib.parse.urlencode({"uploadType": "media", "name": names[key]})
        url = f"{gcs_url}/upload/storage/v1/b/{STATE_BUCKET}/o?{query}"
        _require(f"object [{names[key]}]", call("POST", url, content=content))
    spark_code_file.write_text(json.dumps({key: f"gs://{STATE_BUCKET}/{name}" for key, name in names.items()}) + "\n")
    for permission in _PERMISSIONS:
        grant = {"member": _CALLER, "permission": permission}
        _require(f"grant of [{permission}]", call("POST", f"{bigquery_url}/_standin/grants", body=grant))


def _require(what: str, answer: Answer) -> None:
    if not answer.ok:
        raise StackError(f"Cannot make {what}: found status [{answer.status}], expected [200]: {answer.text[:300]}")
