"""What Google's APIs answer about a healthy environment, in the fields of their published schemas."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

PROJECT = "my-project"
AIRFLOW = "dedup-clone-airflow@my-project.iam.gserviceaccount.com"
SPARK = "dedup-clone-spark@my-project.iam.gserviceaccount.com"
PRODUCER = "dedup-clone-producer@my-project.iam.gserviceaccount.com"
NETWORK = "https://www.googleapis.com/compute/v1/projects/my-project/global/networks/default"

SERVICES = "https://serviceusage.googleapis.com/v1/projects/my-project/services"
LANDING = "https://storage.googleapis.com/storage/v1/b/my-project-landing"
STATE = "https://storage.googleapis.com/storage/v1/b/my-project-dedup-clone-state"
DATASET = "https://bigquery.googleapis.com/bigquery/v2/projects/my-project/datasets/warehouse"
PROJECT_POLICY = "https://cloudresourcemanager.googleapis.com/v1/projects/my-project:getIamPolicy"
SPARK_POLICY = f"https://iam.googleapis.com/v1/projects/my-project/serviceAccounts/{SPARK}:getIamPolicy"
REGION = "https://compute.googleapis.com/compute/v1/projects/my-project/regions/europe-west1"
SUBNETWORK = f"{REGION}/subnetworks/default"
FIREWALLS = "https://compute.googleapis.com/compute/v1/projects/my-project/global/firewalls"
ENVIRONMENT = "https://composer.googleapis.com/v1/projects/my-project/locations/europe-west1/environments/dedup-clone"
ACCOUNTS = {
    account: f"https://iam.googleapis.com/v1/projects/my-project/serviceAccounts/{account}"
    for account in (AIRFLOW, SPARK, PRODUCER)
}
CLUSTER = "https://dataproc.googleapis.com/v1/projects/my-project/regions/europe-west1/clusters/standing"
SPARK_CODE = (
    "https://storage.googleapis.com/storage/v1/b/europe-west1-dedup-clone-0a1b2c3d-bucket/o/dags%2Fspark_code.json"
)
ASSIGNMENTS = "https://bigqueryreservation.googleapis.com/v1/projects/my-project/locations/EU:searchAllAssignments"
QUOTAS = (
    "https://serviceusage.googleapis.com/v1beta1/projects/my-project/services/bigquery.googleapis.com"
    "/consumerQuotaMetrics"
)

# The address -> the discovery document, and the schema of its answer.
SCHEMAS = {
    SERVICES: ("serviceusage.v1", "ListServicesResponse"),
    LANDING: ("storage.v1", "Bucket"),
    STATE: ("storage.v1", "Bucket"),
    f"{LANDING}/iam": ("storage.v1", "Policy"),
    f"{STATE}/iam": ("storage.v1", "Policy"),
    DATASET: ("bigquery.v2", "Dataset"),
    PROJECT_POLICY: ("cloudresourcemanager.v1", "Policy"),
    SPARK_POLICY: ("iam.v1", "Policy"),
    REGION: ("compute.v1", "Region"),
    SUBNETWORK: ("compute.v1", "Subnetwork"),
    FIREWALLS: ("compute.v1", "FirewallList"),
    **dict.fromkeys(ACCOUNTS.values(), ("iam.v1", "ServiceAccount")),
    CLUSTER: ("dataproc.v1", "Cluster"),
    SPARK_CODE: ("storage.v1", "Object"),
    ENVIRONMENT: ("composer.v1", "Environment"),
    ASSIGNMENTS: ("bigqueryreservation.v1", "SearchAllAssignmentsResponse"),
    QUOTAS: ("serviceusage.v1beta1", "ListConsumerQuotaMetricsResponse"),
}


def _bucket(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "location": "EU",
        "storageClass": "STANDARD",
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"},
        "softDeletePolicy": {"retentionDurationSeconds": "0"},
    }


def _policy(*grants: tuple[str, str]) -> dict[str, Any]:
    return {"bindings": [{"role": role, "members": [f"serviceAccount:{account}"]} for role, account in grants]}


def healthy() -> dict[str, Any]:
    """Address -> answer, to be changed by each test."""
    enabled = ("bigquery", "composer", "iam", "storage", "compute", "dataproc")
    landing = _bucket("my-project-landing")
    landing["lifecycle"] = {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 7}}]}
    return copy.deepcopy({
        SERVICES: {"services": [{"config": {"name": f"{name}.googleapis.com"}} for name in enabled]},
        LANDING: landing,
        STATE: _bucket("my-project-dedup-clone-state"),
        f"{LANDING}/iam": _policy(
            ("roles/storage.objectViewer", AIRFLOW),
            ("roles/storage.objectViewer", SPARK),
            ("roles/storage.objectUser", PRODUCER),
        ),
        f"{STATE}/iam": _policy(("roles/storage.objectUser", AIRFLOW), ("roles/storage.objectUser", SPARK)),
        DATASET: {"location": "EU", "access": [{"role": "OWNER", "userByEmail": AIRFLOW}]},
        PROJECT_POLICY: _policy(
            ("roles/composer.worker", AIRFLOW),
            ("roles/bigquery.jobUser", AIRFLOW),
            ("roles/dataproc.editor", AIRFLOW),
            ("roles/dataproc.worker", SPARK),
        ),
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
        SPARK_CODE: {"name": "dags/spark_code.json"},
        ENVIRONMENT: {
            "state": "RUNNING",
            "config": {
                "dagGcsPrefix": "gs://europe-west1-dedup-clone-0a1b2c3d-bucket/dags",
                "nodeConfig": {"serviceAccount": AIRFLOW},
                "workloadsConfig": {"triggerer": {"count": 1}},
                "softwareConfig": {
                    "imageVersion": "composer-3-airflow-3.3.1-build.2",
                    "webServerPluginsMode": "PLUGINS_ENABLED",
                    "envVariables": {"DEDUP_CLONE_STATE_BUCKET": "my-project-dedup-clone-state"},
                },
            },
        },
        ASSIGNMENTS: {"assignments": []},
        QUOTAS: {
            "metrics": [
                {
                    "metric": "bigquery.googleapis.com/quota/query/usage",
                    "consumerQuotaLimits": [{"unit": "MiBy/d/{project}", "quotaBuckets": [{"effectiveLimit": "-1"}]}],
                }
            ]
        },
    })  # fmt: skip


class Answer:
    def __init__(self, status: int, content: Any) -> None:
        self.status_code = status
        self._content = content

    def json(self) -> Any:
        return self._content


class RecordedGoogle:
    """A session that answers from a record: 404 for an address that is not in it, an HTTP status for a number."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, str]] = []

    def request(self, method: str, url: str, *, params: Mapping[str, str], json: Any, timeout: float) -> Answer:
        self.asked.append((method, re.sub(r"\?.*", "", url)))
        content = self.answers.get(url, 404)
        if isinstance(content, int):
            return Answer(content, {"error": {"message": "refused for the test"}})
        return Answer(200, content)
