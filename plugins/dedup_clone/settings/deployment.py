"""Where this deployment runs: project, buckets, dataset, connections, runner. One file per profile."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.alerts import AlertSettings
from dedup_clone.settings.identifiers import BucketName, ConnectionId, DatasetName, Location, ProjectId
from dedup_clone.settings.strict_yaml import StrictModel, read_model

PROFILE_VARIABLE = "DEDUP_CLONE_PROFILE"


class Runner(StrEnum):
    """Where Spark runs."""

    LOCAL = "local"
    SERVERLESS = "serverless"


class Deployment(StrictModel):
    """One profile. `notice_interval_s`: how often landing is listed; `job_poll_interval_s`: how often jobs are."""

    project: ProjectId
    location: Location
    dataset: DatasetName
    landing_bucket: BucketName
    state_bucket: BucketName
    google_cloud_connection: ConnectionId
    spark_connection: ConnectionId
    runner: Runner
    notice_interval_s: Annotated[int, Field(ge=1, le=60)]
    job_poll_interval_s: Annotated[int, Field(ge=1, le=60)]
    alerts: AlertSettings = AlertSettings()


def read_deployment(folder: Path, environment: Mapping[str, str] = os.environ) -> Deployment:
    """The profile that DEDUP_CLONE_PROFILE names (default: gcp, so that production needs no variable)."""
    name = environment.get(PROFILE_VARIABLE, "gcp")
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise ConfigurationError(f"{PROFILE_VARIABLE} is [{name}], expected one of {known} (files in [{folder}]).")
    return read_model(Deployment, folder / f"{name}.yaml")
