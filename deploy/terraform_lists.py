"""Reads the two lists that Terraform and the doctor share: of IAM grants and of Google APIs, in deploy/terraform."""

from __future__ import annotations

from collections.abc import Sequence, Set
from enum import StrEnum

from pydantic import RootModel

from dedup_clone.settings.spark_settings import Runner, RuntimeVersion
from dedup_clone.settings.strict_yaml import StrictModel, read_model
from deploy.environment_settings import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "terraform"


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


class RequiredApi(StrictModel):
    """One API. `why`: what it does for this project. `runners`: the runners that need it.

    `runtime`: the first Dataproc runtime version that needs it.
    """

    api: str
    why: str
    runners: tuple[Runner, ...] = tuple(Runner)
    runtime: RuntimeVersion = "1.0"


def read_grants() -> tuple[Grant, ...]:
    """All grants in grants.yaml. Raises ConfigurationError that names file, line and key."""
    return read_model(RootModel[tuple[Grant, ...]], FOLDER / "grants.yaml").root


def read_required_apis() -> tuple[RequiredApi, ...]:
    """All APIs in services.yaml. Raises ConfigurationError that names file, line and key."""
    return read_model(RootModel[tuple[RequiredApi, ...]], FOLDER / "services.yaml").root


def needed_apis(runners: Set[Runner], runtime_version: str, apis: Sequence[RequiredApi]) -> list[RequiredApi]:
    """The APIs that any of these runners needs with this runtime version."""
    version = _numbers(runtime_version)
    return [api for api in apis if not runners.isdisjoint(api.runners) and version >= _numbers(api.runtime)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


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
