"""Reads, for the doctor, the list of the Google APIs that the project needs: deploy/terraform/services.yaml."""

from __future__ import annotations

from collections.abc import Sequence, Set

from pydantic import RootModel

from dedup_clone.settings.spark_settings import Runner, RuntimeVersion
from dedup_clone.settings.strict_yaml import StrictModel, read_model
from deploy.environment_settings import REPOSITORY

SERVICES_FILE = REPOSITORY / "deploy" / "terraform" / "services.yaml"


class RequiredApi(StrictModel):
    """One API. `why`: what it does for this project. `runners`: the runners that need it.

    `runtime`: the first Dataproc runtime version that needs it.
    """

    api: str
    why: str
    runners: tuple[Runner, ...] = tuple(Runner)
    runtime: RuntimeVersion = "1.0"


class _RequiredApis(RootModel[tuple[RequiredApi, ...]]):
    """The content of services.yaml: a list of APIs."""


def read_required_apis() -> tuple[RequiredApi, ...]:
    """All APIs in services.yaml. Raises ConfigurationError that names file, line and key."""
    return read_model(_RequiredApis, SERVICES_FILE).root


def needed_apis(runners: Set[Runner], runtime_version: str, apis: Sequence[RequiredApi]) -> list[RequiredApi]:
    """The APIs that any of these runners needs with this runtime version."""
    version = _numbers(runtime_version)
    return [api for api in apis if not runners.isdisjoint(api.runners) and version >= _numbers(api.runtime)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
