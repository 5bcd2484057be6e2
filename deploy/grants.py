"""The IAM grants in deploy/terraform/grants.yaml, for the doctor and for the table in docs/security.md."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

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
    condition. `why`: what the service account does with the role, as the end of a sentence that begins with "it".
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


def read_grants(path: Path = GRANTS_FILE) -> tuple[Grant, ...]:
    """Raises ConfigurationError that names file, line and key."""
    return read_model(_Grants, path).root


def as_table(grants: Sequence[Grant]) -> str:
    """The grants in Markdown."""
    names = {
        Resource.PROJECT: "project",
        Resource.DATASET: "the dataset",
        Resource.LANDING: "the landing bucket",
        Resource.STATE: "the state bucket",
        Resource.SPARK: "the Spark service account",
    }
    limits = {
        None: "",
        Bucket.ENVIRONMENT: "; of all buckets, only the environment's",
        Bucket.SPARK_STAGING: "; of all buckets, only Dataproc's staging bucket",
    }
    lines = [
        f"| {grant.who} | `{grant.role}` | {names[grant.place]}{limits[grant.only_bucket]} | {grant.why} |"
        for grant in grants
    ]
    return "\n".join(["| Service account | Role | On | Why |", "| --- | --- | --- | --- |", *lines])
