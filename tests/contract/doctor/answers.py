"""Holds the answers of Google's APIs about a healthy environment, for tests of `make doctor`."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from json import dumps
from pathlib import Path
from typing import Any

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
ACCOUNTS = {
    account: f"https://iam.googleapis.com/v1/projects/my-project/serviceAccounts/{account}"
    for account in (AIRFLOW, SPARK, PRODUCER)
}
AIRFLOW_ACCOUNT, PRODUCER_ACCOUNT = ACCOUNTS[AIRFLOW], ACCOUNTS[PRODUCER]
CLUSTER = "https://dataproc.googleapis.com/v1/projects/my-project/regions/europe-west1/clusters/standing"
CONNECTION = "https://bigqueryconnection.googleapis.com/v1/projects/my-project/locations/eu/connections/spark"
CONNECTION_POLICY = f"{CONNECTION}:getIamPolicy"
CONNECTION_ACCOUNT = "bqcx-42-ab1c@gcp-sa-bigquery-consp.iam.gserviceaccount.com"
SPARK_CODE = "https://storage.googleapis.com/storage/v1/b/my-project-dedup-clone-airflow/o/dags%2Fspark_code.json"

# The discovery document that describes the answer from an address, and the answer's schema in it.
SCHEMAS = {
    SERVICES: ("serviceusage.v1", "ListServicesResponse"),
    LANDING: ("storage.v1", "Bucket"),
    STATE: ("storage.v1", "Bucket"),
    LANDING_IAM: ("storage.v1", "Policy"),
    STATE_IAM: ("storage.v1", "Policy"),
    DATASET: ("bigquery.v2", "Dataset"),
    PROJECT_POLICY: ("cloudresourcemanager.v1", "Policy"),
    SPARK_POLICY: ("iam.v1", "Policy"),
    TAG_POLICY: ("datacatalog.v1", "Policy"),
    REGION: ("compute.v1", "Region"),
    SUBNETWORK: ("compute.v1", "Subnetwork"),
    FIREWALLS: ("compute.v1", "FirewallList"),
    **dict.fromkeys(ACCOUNTS.values(), ("iam.v1", "ServiceAccount")),
    CLUSTER: ("dataproc.v1", "Cluster"),
    CONNECTION: ("bigqueryconnection.v1", "Connection"),
    CONNECTION_POLICY: ("bigqueryconnection.v1", "Policy"),
    SPARK_CODE: ("storage.v1", "Object"),
    ENVIRONMENT: ("composer.v1", "Environment"),
}


def _bucket(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "location": "EUROPE-WEST1",
        "storageClass": "STANDARD",
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"},
        "softDeletePolicy": {"retentionDurationSeconds": "0"},
        "versioning": {"enabled": True},
        "lifecycle": {"rule": [{"action": {"type": "Delete"}, "condition": {"daysSinceNoncurrentTime": 30}}]},
    }


def _policy(*grants: tuple[str, str]) -> dict[str, Any]:
    return {"bindings": [{"role": role, "members": [f"serviceAccount:{account}"]} for role, account in grants]}


def limited(role: str, account: str, bucket: str) -> dict[str, Any]:
    """A grant with the condition that deploy/terraform sets: in Cloud Storage it applies to this bucket only."""
    name = f"projects/_/buckets/{bucket}"
    expression = (
        f'resource.service != "storage.googleapis.com" || resource.name == "{name}" || '
        f'resource.name.startsWith("{name}/")'
    )
    return {"role": role, "members": [f"serviceAccount:{account}"], "condition": {"expression": expression}}


def healthy() -> dict[str, Any]:
    """The answers by address: a new copy, which a test may change."""
    enabled = "bigquery bigquerystorage cloudresourcemanager composer compute dataproc iam logging"
    enabled += " monitoring storage"
    on_project = _policy(
        ("roles/bigquery.jobUser", AIRFLOW),
        ("roles/bigquery.resourceViewer", AIRFLOW),
        ("roles/bigquery.metadataViewer", AIRFLOW),
        ("roles/dataproc.editor", AIRFLOW),
    )
    on_project["bindings"] += [
        limited("roles/composer.worker", AIRFLOW, "my-project-dedup-clone-airflow"),
        limited("roles/dataproc.worker", SPARK, "my-project-dedup-clone-spark"),
    ]
    landing = _bucket("my-project-landing")
    landing["lifecycle"] = {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 7}}]}
    return copy.deepcopy({
        SERVICES: {"services": [{"config": {"name": f"{name}.googleapis.com"}} for name in enabled.split()]},
        LANDING: landing,
        STATE: _bucket("my-project-dedup-clone-state"),
        LANDING_IAM: _policy(
            ("roles/storage.objectViewer", AIRFLOW),
            ("roles/storage.objectViewer", SPARK),
            ("roles/storage.legacyBucketReader", AIRFLOW),
            ("roles/storage.legacyBucketReader", SPARK),
            ("roles/storage.objectUser", PRODUCER),
        ),
        STATE_IAM: _policy(
            ("roles/storage.objectUser", AIRFLOW),
            ("roles/storage.objectUser", SPARK),
            ("roles/storage.legacyBucketReader", AIRFLOW),
            ("roles/storage.legacyBucketReader", SPARK),
        ),
        DATASET: {"location": "europe-west1", "access": [{"role": "OWNER", "userByEmail": AIRFLOW}]},
        PROJECT_POLICY: on_project,
        TAG_POLICY: {"etag": "BwX"},  # a policy without bindings
        SPARK_POLICY: _policy(("roles/iam.serviceAccountUser", AIRFLOW)),
        REGION: {
            "quotas": [
                {"metric": "CPUS", "limit": 500, "usage": 20},
                {"metric": "DISKS_TOTAL_GB", "limit": 40_000, "usage": 100},
            ]
        },
        SUBNETWORK: {"network": NETWORK, "ipCidrRange": "10.132.0.0/20", "privateIpGoogleAccess": True},
        FIREWALLS: {
            "items": [
                {
                    "network": NETWORK,
                    "direction": "INGRESS",
                    "allowed": [{"IPProtocol": "tcp", "ports": ["0-65535"]}, {"IPProtocol": "icmp"}],
                    "sourceRanges": ["10.128.0.0/9"],
                }
            ]
        },
        **{url: {"email": account} for account, url in ACCOUNTS.items()},
        CLUSTER: {"status": {"state": "RUNNING"}},
        CONNECTION: {"spark": {"serviceAccountId": CONNECTION_ACCOUNT}},
        CONNECTION_POLICY: _policy(("roles/bigquery.connectionAdmin", AIRFLOW)),
        SPARK_CODE: {"name": "dags/spark_code.json"},
        ENVIRONMENT: {
            "state": "RUNNING",
            "config": {
                "dagGcsPrefix": "gs://my-project-dedup-clone-airflow/dags",
                "nodeConfig": {"serviceAccount": AIRFLOW},
                "workloadsConfig": {"triggerer": {"count": 1}},
                "softwareConfig": {
                    "imageVersion": "composer-3-airflow-3.3.1-build.2",
                    "webServerPluginsMode": "PLUGINS_ENABLED",
                    "pypiPackages": dict(re.findall(r"^([a-z-]+)(>=.+)$", PACKAGES.read_text(), re.MULTILINE)),
                    "airflowConfigOverrides": {
                        "core-dagbag_import_timeout": "120",
                        "dag_processor-dag_file_processor_timeout": "120",
                    },
                    "envVariables": {
                        "DEDUP_CLONE_STATE_BUCKET": "my-project-dedup-clone-state",
                        "DEDUP_CLONE_ENVIRONMENT": "my-project/europe-west1/dedup-clone",
                    },
                },
            },
        },
    })  # fmt: skip


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
