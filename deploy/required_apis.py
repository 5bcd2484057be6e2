"""The Google APIs in deploy/terraform/services.yaml, for the doctor."""

from __future__ import annotations

from collections.abc import Sequence, Set

from pydantic import RootModel

from dedup_clone.settings.spark_settings import Runner, RuntimeVersion
from dedup_clone.settings.strict_yaml import StrictModel, read_model
from deploy.environment_settings import REPOSITORY

SERVICES_FILE = REPOSITORY / "deploy" / "terraform" / "services.yaml"


class RequiredApi(StrictModel):
    """One API. `runners`: the runners that need it. `runtime`: the first Dataproc runtime version that needs it."""

    api: str
    why: str
    runners: tuple[Runner, ...] = tuple(Runner)
    runtime: RuntimeVersion = "1.0"


class _Services(RootModel[tuple[RequiredApi, ...]]):
    """The content of services.yaml: a list of APIs."""


def read_services() -> tuple[RequiredApi, ...]:
    """Raises ConfigurationError that names file, line and key."""
    return read_model(_Services, SERVICES_FILE).root


def needed_by(runners: Set[Runner], runtime_version: str, services: Sequence[RequiredApi]) -> list[RequiredApi]:
    """The APIs that any of these runners needs with this runtime version."""
    version = _numbers(runtime_version)
    return [s for s in services if not runners.isdisjoint(s.runners) and version >= _numbers(s.runtime)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
