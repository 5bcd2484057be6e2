"""The models and the reader of profiles: where feeds run (project, buckets, dataset, connections, runner), and alerts.

Each profile is one file of `dags/profiles/`. With one profile each, environments for development, staging and
production run the same feeds in different projects. A profile may extend another one; it then contains only the
settings that differ.

The section `alerts` contains no secrets: arguments of notifiers name Airflow connections, which have them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.spark_settings import Runner, SparkSettings
from dedup_clone.settings.strict_yaml import (
    BucketName,
    ConnectionId,
    DatasetName,
    Location,
    ProjectId,
    StrictModel,
    read_model,
    read_yaml,
)

ClassPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
Argument = str | int | float | bool | list[str] | dict[str, str] | None


class NotifierSettings(StrictModel):
    """An Airflow notifier that gets each alert, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier.

    `arguments`: the arguments of the notifier's constructor, such as its connection. Those that the notifier renders as
    templates may contain fields of the alert, such as `{{ alert.title }}`, `{{ alert.text }}` and `{{ alert.feed }}`.
    The message itself need not be given for the notifiers of docs/alerts-and-metrics.md.
    """

    class_path: ClassPath
    arguments: dict[str, Argument] = Field(default_factory=dict)


class AlertSettings(StrictModel):
    """The section `alerts`. `runbook`: the address of docs/runbook.md, to which each alert links."""

    removed_keys: ClassVar[dict[str, str]] = {
        "webhooks": "Name a notifier for each connection in [alerts.notifiers] (docs/alerts-and-metrics.md): Slack's "
        "or PagerDuty's, or Apprise's for any other address.",
        "check_interval_minutes": "The watchdog checks every five minutes.",
    }

    runbook: str = "docs/runbook.md"
    notifiers: tuple[NotifierSettings, ...] = ()


PROFILE_VARIABLE = "DEDUP_CLONE_PROFILE"
DEFAULT_PROFILE = "gcp"


class Deployment(StrictModel):
    """One profile. `runner` applies to feeds that name none; `spark` has the settings of all runners but `local`.

    `notice_interval_s`: seconds between listings of the landing bucket. `job_poll_interval_s`: seconds between polls of
    a running job. `extends`: the name of the profile from which this one inherits the settings that it lacks, also
    single settings of a section.
    """

    removed_keys: ClassVar[dict[str, str]] = {
        "organization_views": "Only materialized views of the profile's own project are looked for. Let those of other "
        "projects read another table, because each publish breaks them.",
        "spark_connection": "Runner [local] uses Airflow's connection [spark_default].",
    }

    extends: str | None = None
    project: ProjectId
    location: Location
    dataset: DatasetName
    landing_bucket: BucketName
    state_bucket: BucketName
    google_cloud_connection: ConnectionId
    runner: Runner
    spark: SparkSettings = SparkSettings()
    notice_interval_s: Annotated[int, Field(ge=1, le=60)]
    job_poll_interval_s: Annotated[int, Field(ge=1, le=60)]
    alerts: AlertSettings = AlertSettings()

    def problems(self) -> Iterator[str]:
        if self.landing_bucket == self.state_bucket:  # retiring a feed would delete its landed files
            yield f"[{self.state_bucket}] is the bucket of landing and of state: name two buckets"
        if missing := self.spark.missing_setting(self.runner):
            yield f"runner [{self.runner}] needs [spark.{missing}]"


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
