"""Puts into the stack's storage and BigQuery what feeds need: buckets, dataset, and the job's code for procedures."""

import json
import urllib.parse
from pathlib import Path

from bigquery_standin.client import Control
from devstack.http_calls import Answer, call
from devstack.spark_archive import ARCHIVE_FILE, MAIN_FILE, build_spark_code
from devstack.stack.layout import CHECKOUT, StackError
from devstack.stack.names_and_logins import DATASET, LANDING_BUCKET, LOCATION, PROJECT_ID, STATE_BUCKET

_EXISTS = 409
_PERMISSIONS = ("bigquery.connections.delegate", "bigquery.connections.use")


def create_missing(gcs_url: str, bigquery_url: str) -> None:
    """Create the buckets and the dataset that do not exist.

    Raises StackError if a server refuses it, and Unreachable if one does not respond.
    """
    for bucket in (LANDING_BUCKET, STATE_BUCKET):
        url = f"{gcs_url}/storage/v1/b?project={PROJECT_ID}"
        _require_made(f"bucket [{bucket}]", call("POST", url, body={"name": bucket, "location": LOCATION}))
    dataset = {"datasetReference": {"projectId": PROJECT_ID, "datasetId": DATASET}, "location": LOCATION}
    url = f"{bigquery_url}/bigquery/v2/projects/{PROJECT_ID}/datasets"
    _require_made(f"dataset [{PROJECT_ID}.{DATASET}]", call("POST", url, body=dataset))


def prepare_procedures(gcs_url: str, bigquery_url: str, spark_code_file: Path) -> None:
    """Make the stack ready for feeds with `runner: bigquery_procedure`, which lets BigQuery run the Spark job.

    Uploads the code as a release does, writes its URIs to `spark_code_file`, and grants the caller the permissions on
    the stand-in's connection for Spark. Raises StackError and Unreachable as `create_missing` does.
    """
    code = build_spark_code(CHECKOUT)
    files = {"main": (MAIN_FILE, code.main), "archive": (ARCHIVE_FILE, code.archive)}
    names = {key: f"code/{code.digest}/{name}" for key, (name, _) in files.items()}
    for key, (_, content) in files.items():
        query = urllib.parse.urlencode({"uploadType": "media", "name": names[key]})
        url = f"{gcs_url}/upload/storage/v1/b/{STATE_BUCKET}/o?{query}"
        _require_made(f"object [{names[key]}]", call("POST", url, content=content))
    spark_code_file.write_text(json.dumps({key: f"gs://{STATE_BUCKET}/{name}" for key, name in names.items()}) + "\n")
    for permission in _PERMISSIONS:
        Control(bigquery_url).grant(permission)


def _require_made(what: str, answer: Answer) -> None:
    if not answer.ok and answer.status != _EXISTS:
        raise StackError(f"Cannot make {what}: found status [{answer.status}], expected [200]: {answer.text[:300]}")
