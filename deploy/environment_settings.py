"""Reads the profile that a command works with, and the file that describes the profile's Managed Airflow environment.

Profile `gcp` has the file deploy/environment.yaml; `staging` would have deploy/environment.staging.yaml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from dedup_clone.settings.deployment import DEFAULT_PROFILE, Deployment, profile_name, read_deployment
from dedup_clone.settings.spark_settings import Region, ServiceAccount
from dedup_clone.settings.strict_yaml import BucketName, StrictModel, read_model

REPOSITORY = Path(__file__).resolve().parents[1]
DAGS = REPOSITORY / "dags"
SPARK_CODE_PREFIX = "spark-code/"  # a folder of the state bucket; no feed can have this name

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


def environment_file() -> Path:
    """The file of the environment to which the profile's releases go."""
    name = profile_name()
    return REPOSITORY / "deploy" / ("environment.yaml" if name == DEFAULT_PROFILE else f"environment.{name}.yaml")


def read_environment(path: Path | None = None) -> Environment:
    """Read `path`, by default the profile's own file. Raises ConfigurationError that names file, line and key."""
    return read_model(Environment, path or environment_file())


def read_profile(dags: Path = DAGS) -> Deployment:
    """The profile that DEDUP_CLONE_PROFILE names, `gcp` by default. Raises ConfigurationError."""
    return read_deployment(dags / "profiles")
