"""Reads deploy/environment.yaml, which describes the Managed Airflow environment, and the profile for Google Cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.identifiers import BucketName
from dedup_clone.settings.spark_settings import Region, ServiceAccount
from dedup_clone.settings.strict_yaml import StrictModel, read_model

REPOSITORY = Path(__file__).resolve().parents[1]
ENVIRONMENT_FILE = REPOSITORY / "deploy" / "environment.yaml"
PROFILE_FILE = REPOSITORY / "dags" / "profiles" / "gcp.yaml"
SPARK_CODE_PREFIX = "spark-code/"  # below the state bucket; no feed can have this name

ResourceName = Annotated[str, StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]


class Environment(StrictModel):
    """The Managed Airflow (Composer 3) environment to which a release is deployed, and two service accounts.

    `bucket`: the environment's bucket, with dags/ and plugins/. `airflow`: the service account that runs DAGs.
    `producer`: the service account that lands snapshots. The profile names the service account of Spark.
    """

    name: ResourceName
    region: Region
    bucket: BucketName
    airflow: ServiceAccount
    producer: ServiceAccount


def read_environment(path: Path = ENVIRONMENT_FILE) -> Environment:
    """Raises ConfigurationError that names file, line and key."""
    return read_model(Environment, path)


def read_profile(path: Path = PROFILE_FILE) -> Deployment:
    """The profile for Google Cloud. Raises ConfigurationError that names file, line and key."""
    return read_model(Deployment, path)
