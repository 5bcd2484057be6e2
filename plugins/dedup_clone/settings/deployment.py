"""Where this deployment runs: project, buckets, dataset, connections, runner. One file per profile."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.alerts import AlertSettings
from dedup_clone.settings.identifiers import BucketName, ConnectionId, DatasetName, Location, ProjectId
from dedup_clone.settings.spark import Runner, SparkSettings
from dedup_clone.settings.strict_yaml import StrictModel, read_model

PROFILE_VARIABLE = "DEDUP_CLONE_PROFILE"


class Deployment(StrictModel):
    """One profile. `notice_interval_s`: how often landing is listed; `job_poll_interval_s`: how often jobs are.

    `runner`: of the feeds that name none; `spark`: what it needs to know.
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
        missing = self.spark.missing_for(self.runner)
        if missing:
            raise ValueError(f"runner [{self.runner}] needs [spark.{missing}]")
        return self


def read_deployment(folder: Path, environment: Mapping[str, str] = os.environ) -> Deployment:
    """The profile that DEDUP_CLONE_PROFILE names (default: gcp, so that production needs no variable)."""
    name = environment.get(PROFILE_VARIABLE, "gcp")
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise ConfigurationError(f"{PROFILE_VARIABLE} is [{name}], expected one of {known} (files in [{folder}]).")
    return read_model(Deployment, folder / f"{name}.yaml")
