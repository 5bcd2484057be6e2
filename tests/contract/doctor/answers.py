"""Holds the answers of Google's APIs about a healthy environment, for tests of `make doctor`."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from json import dumps
from pathlib import Path
from typing import Any

import yaml
from requests import Response

PACKAGES = Path(__file__).parents[3] / "requirements" / "composer.txt"
AIRFLOW = "dedup-clone-airflow@my-project.iam.gserviceaccount.com"
SPARK = "dedup-clone-spark@my-project.iam.gserviceaccount.com"
PRODUCER = "dedup-clone-producer@my-project.iam.gserviceaccount.com"
NETWORK = "https://www.googleapis.com/compute/v1/projects/my-project/global/networks/default"

SERVICES = "https://serviceusage.googleapis.com/v1/projects/my-project/services"
LANDING = "https://storage.googleapis.com/storage/v1/b/my-project-landing"
STATE = "https://storage.googleapis.com/storage/v1/b/my-project-dedup-clone-state"
LANDING_IAM, STATE_IAM = f"{LANDING}/iam", f"{STATE}/iam"
DATASET = "https://bigquery.googleapis.com/bigquery/v2/projects/my-project/datasets/warehouse"
PROJECT_POLICY = "https://cloudresourcemanager.googleapis.com/v1/projects/my-project:getIamPolicy"
TAG = "projects/my-project/locations/eu/taxonomies/4/policyTags/2"
TAG_POLICY = f"https://datacatalog.googleapis.com/v1/{TAG}:getIamPolicy"
SPARK_POLICY = f"https://iam.googleapis.com/v1/projects/my-project/serviceAccounts/{SPARK}:getIamPolicy"
REGION = "https://compute.googleapis.com/compute/v1/projects/my-project/regions/europe-west1"
SUBNETWORK = f"{REGION}/subnetworks/default"
FIREWALLS = "https://compute.googleapis.com/compute/v1/projects/my-project/global/firewalls"
ENVIRONMENT = "https://composer.googleapis.com/v1/projects/my-project/locations/europe-west1/environments/dedup-clone"
AIRFLOW_ACCOUNT, SPARK_ACCOUNT, PRODUCER_ACCOUNT = (
    f"https://iam.googleapis.com/v1/projects/my-project/serviceAccounts/{account}"
    for account in (AIRFLOW, SPARK, PRODUCER)
)
CLUSTER = "https://dataproc.googleapis.com/v1/projects/my-project/regions/europe-west1/clusters/standing"
CONNECTION = "https://bigqueryconnection.googleapis.com/v1/projects/my-project/locations/eu/connections/spark"
CONNECTION_POLICY = f"{CONNECTION}:getIamPolicy"
CONNECTION_ACCOUNT = "bqcx-42-ab1c@gcp-sa-bigquery-consp.iam.gserviceaccount.com"
SPARK_CODE = "https://storage.googleapis.com/storage/v1/b/my-project-dedup-clone-airflow/o/dags%2Fspark_code.json"
SPARK_MAIN, SPARK_ARCHIVE = (
    f"{STATE}/o/spark-code%2Fab12%2F{name}" for name in ("dedup_snapshot.py", "dedup_spark.zip")
)

_RECORDED = {
    globals()[name.upper()]: found
    for name, found in yaml.safe_load((Path(__file__).parent / "answers.yaml").read_text()).items()
}
# The discovery document that describes the answer from an address, and the answer's schema in it.
SCHEMAS = {url: (found["api"], found["schema"]) for url, found in _RECORDED.items()}


def healthy() -> dict[str, Any]:
    """The answers by address: a new copy, which a test may change."""
    answers = {url: copy.deepcopy(found["answer"]) for url, found in _RECORDED.items()}
    packages = dict(re.findall(r"^([a-z-]+)(>=.+)$", PACKAGES.read_text(), re.MULTILINE))
    answers[ENVIRONMENT]["config"]["softwareConfig"]["pypiPackages"] = packages
    folder = "gs://my-project-dedup-clone-state/spark-code/ab12"
    answers[SPARK_CODE] = {"main": f"{folder}/dedup_snapshot.py", "archive": f"{folder}/dedup_spark.zip"}
    return answers


def answer(status: int, content: Any) -> Response:
    response = Response()
    response.status_code, response._content = status, dumps(content).encode()
    return response


class RecordedGoogle:
    """A session that answers from `answers`, by address.

    A number in `answers` is an error status; for an address that it lacks the status is 404. `asked`: the method and
    address of each request. `bodies`, `parameters`: those of the last request to an address.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, str]] = []
        self.bodies: dict[str, Any] = {}
        self.parameters: dict[str, Mapping[str, str]] = {}

    def request(self, method: str, url: str, *, params: Mapping[str, str], json: Any, timeout: float) -> Response:
        self.asked.append((method, re.sub(r"\?.*", "", url)))
        self.bodies[url], self.parameters[url] = json, params
        content = self.answers.get(url, 404)
        if isinstance(content, int):
            return answer(content, {"error": {"message": "refused for the test"}})
        return answer(200, content)
