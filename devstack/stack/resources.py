"""What must exist before the first snapshot lands: the two buckets and the dataset."""

from devstack.http_calls import Answer, call
from devstack.stack.errors import StackError
from devstack.stack.names import BUCKETS, DATASET, LOCATION, PROJECT_ID

_EXISTS = 409


def make_missing(gcs_url: str, bigquery_url: str) -> None:
    """Makes what does not exist. Raises StackError when a part refuses."""
    for bucket in BUCKETS:
        url = f"{gcs_url}/storage/v1/b?project={PROJECT_ID}"
        _expect_made(f"bucket [{bucket}]", call("POST", url, body={"name": bucket, "location": LOCATION}))
    dataset = {"datasetReference": {"projectId": PROJECT_ID, "datasetId": DATASET}, "location": LOCATION}
    url = f"{bigquery_url}/bigquery/v2/projects/{PROJECT_ID}/datasets"
    _expect_made(f"dataset [{PROJECT_ID}.{DATASET}]", call("POST", url, body=dataset))


def _expect_made(what: str, answer: Answer) -> None:
    if not answer.ok and answer.status != _EXISTS:
        raise StackError(
            f"Cannot make {what}: found status [{answer.status}], expected [200] or [{_EXISTS}]: {answer.text[:300]}"
        )
