"""Creates the buckets and the dataset of the local stack."""

from devstack.http_calls import Answer, call
from devstack.stack.names_and_logins import BUCKETS, DATASET, LOCATION, PROJECT_ID
from devstack.stack.stack_errors import StackError

_EXISTS = 409


def create_missing(gcs_url: str, bigquery_url: str) -> None:
    """Create the buckets and the dataset that do not exist.

    Raises StackError if a server refuses it, and Unreachable if one does not respond.
    """
    for bucket in BUCKETS:
        url = f"{gcs_url}/storage/v1/b?project={PROJECT_ID}"
        _require_created(f"bucket [{bucket}]", call("POST", url, body={"name": bucket, "location": LOCATION}))
    dataset = {"datasetReference": {"projectId": PROJECT_ID, "datasetId": DATASET}, "location": LOCATION}
    url = f"{bigquery_url}/bigquery/v2/projects/{PROJECT_ID}/datasets"
    _require_created(f"dataset [{PROJECT_ID}.{DATASET}]", call("POST", url, body=dataset))


def _require_created(what: str, answer: Answer) -> None:
    if not answer.ok and answer.status != _EXISTS:
        raise StackError(
            f"Cannot make {what}: found status [{answer.status}], expected [200] or [{_EXISTS}]: {answer.text[:300]}"
        )
