"""Profiles: where a deployment runs (project, buckets, dataset, connections, runner). One file per profile."""

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
from dedup_clone.settings.strict_yaml import StrictModel, read_model

PROFILE_VARIABLE = "DEDUP_CLONE_PROFILE"


class Deployment(StrictModel):
    """One profile. `runner` applies to feeds that name none; `spark` has the settings of all runners.

    `notice_interval_s`: seconds between listings of the landing bucket. `job_poll_interval_s`: seconds between polls
    of a running job.
    """

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
    alerts: AlertSettings = AlertSettings()

    @model_validator(mode="after")
    def runner_has_what_it_needs(self) -> Self:
        missing = self.spark.missing_setting(self.runner)
        if missing:
            raise ValueError(f"runner [{self.runner}] needs [spark.{missing}]")
        return self


def read_deployment(folder: Path, environment: Mapping[str, str] = os.environ) -> Deployment:
    """The profile named by DEDUP_CLONE_PROFILE, gcp by default. Raises ConfigurationError."""
    name = environment.get(PROFILE_VARIABLE, "gcp")
    profiles = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in profiles:
        raise ConfigurationError(f"{PROFILE_VARIABLE} is [{name}], expected one of {profiles} (files in [{folder}]).")
    return read_model(Deployment, folder / f"{name}.yaml")
