"""Reads deploy/terraform/grants.yaml, the IAM grants that the doctor looks for in the live project."""

from __future__ import annotations

from enum import StrEnum

from pydantic import RootModel

from dedup_clone.settings.strict_yaml import StrictModel, read_model
from deploy.environment_settings import REPOSITORY

GRANTS_FILE = REPOSITORY / "deploy" / "terraform" / "grants.yaml"


class Principal(StrEnum):
    """The service accounts: of Airflow's environment, of the Spark job, and of whoever lands snapshots."""

    AIRFLOW = "airflow"
    SPARK = "spark"
    PRODUCER = "producer"


class Resource(StrEnum):
    """The resource on which a role is granted."""

    PROJECT = "project"
    DATASET = "dataset"
    LANDING = "landing"
    STATE = "state"
    SPARK = "spark"  # the Spark service account itself: Airflow must be allowed to start jobs as this account


class Bucket(StrEnum):
    """The GCS buckets. `environment` is Airflow's: DAGs, plugins, logs. `spark_staging` is Dataproc's."""

    LANDING = "landing"
    STATE = "state"
    ENVIRONMENT = "environment"
    SPARK_STAGING = "spark_staging"


class Grant(StrictModel):
    """One IAM role (`role`) of one service account (`who`) on one resource (`place`).

    `only_bucket`: the GCS bucket to which a condition limits the role's rights on Cloud Storage; None without a
    condition. `why`: what the service account does with the role, or what requires it.
    """

    who: Principal
    role: str
    place: Resource
    only_bucket: Bucket | None = None
    why: str


def bucket_condition(bucket: str) -> str:
    """The condition that limits rights on Cloud Storage to one GCS bucket. deploy/terraform/locals.tf has the same."""
    name = f"projects/_/buckets/{bucket}"
    return " || ".join(
        [
            'resource.service != "storage.googleapis.com"',
            f'resource.name == "{name}"',
            f'resource.name.startsWith("{name}/")',
        ]
    )


class _Grants(RootModel[tuple[Grant, ...]]):
    """The content of grants.yaml: a list of grants."""


def read_grants() -> tuple[Grant, ...]:
    """All grants in grants.yaml. Raises ConfigurationError that names file, line and key."""
    return read_model(_Grants, GRANTS_FILE).root
