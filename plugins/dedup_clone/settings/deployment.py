"""The model and the reader of profiles: where feeds run (project, GCS buckets, dataset, connections, runner).

Each profile is one file of `dags/profiles/`. With one profile each, environments for development, staging and
production run the same feeds in different projects. A profile may extend another one; it then contains only the
settings that differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.alert_settings import AlertSettings
from dedup_clone.settings.identifiers import BucketName, ConnectionId, DatasetName, Location, ProjectId
from dedup_clone.settings.spark_settings import Runner, SparkSettings
from dedup_clone.settings.strict_yaml import StrictModel, read_model, read_yaml

PROFILE_VARIABLE = "DEDUP_CLONE_PROFILE"
DEFAULT_PROFILE = "gcp"


class Deployment(StrictModel):
    """One profile. `runner` applies to feeds that name none; `spark` has the settings of all runners but `local`.

    `spark_connection`: Airflow's connection for runner `local`. `notice_interval_s`: seconds between listings of the
    landing bucket. `job_poll_interval_s`: seconds between polls of a running job. `organization_views`: whether a
    publish is also refused while a materialized view of another project of the organization reads target. `extends`:
    the name of the profile from which this one inherits the settings that it lacks, also single settings of a section.
    """

    extends: str | None = None
    project: ProjectId
    location: Location
    dataset: DatasetName
    landing_bucket: BucketName
    state_bucket: BucketName
    google_cloud_connection: ConnectionId
    spark_connection: ConnectionId
    runner: Runner
    spark: SparkSettings = SparkSettings()
    notice_interval_s: Annotated[int, Field(ge=1, le=60)]
    job_poll_interval_s: Annotated[int, Field(ge=1, le=60)]
    organization_views: bool = False
    alerts: AlertSettings = AlertSettings()

    @model_validator(mode="after")
    def buckets_differ_and_runner_has_what_it_needs(self) -> Self:
        if self.landing_bucket == self.state_bucket:  # retiring a feed would delete its landed files
            raise ValueError(f"[{self.state_bucket}] is the bucket of landing and of state: name two buckets")
        missing = self.spark.missing_setting(self.runner)
        if missing:
            raise ValueError(f"runner [{self.runner}] needs [spark.{missing}]")
        return self


def profile_name(environment: Mapping[str, str] = os.environ) -> str:
    """The name of the profile that DEDUP_CLONE_PROFILE selects; `gcp` by default."""
    return environment.get(PROFILE_VARIABLE, DEFAULT_PROFILE)


def read_deployment(folder: Path, environment: Mapping[str, str] = os.environ) -> Deployment:
    """The profile in `folder` that DEDUP_CLONE_PROFILE selects; `gcp` by default. Raises ConfigurationError."""
    name = profile_name(environment)
    profiles = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in profiles:
        raise ConfigurationError(f"{PROFILE_VARIABLE} is [{name}], expected one of {profiles} (files in [{folder}]).")
    path = folder / f"{name}.yaml"
    base_name = read_yaml(path).get("extends")
    if base_name is None:
        return read_model(Deployment, path)
    base_path = folder / f"{base_name}.yaml"
    if base_name == name or base_name not in profiles or read_yaml(base_path).get("extends") is not None:
        raise ConfigurationError(
            f"Profile [{name}] extends [{base_name}], expected one of {profiles} that is complete and extends no other."
        )
    read_model(Deployment, base_path)  # so that an error in the extended profile names that profile's file
    return read_model(Deployment, path, base=read_yaml(base_path))
