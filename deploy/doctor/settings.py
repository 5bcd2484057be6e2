"""Checks the settings of buckets, dataset and Managed Airflow that settings.yaml lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import RootModel

from dedup_clone.settings.deployment import profile_name
from dedup_clone.settings.strict_yaml import StrictModel, read_model
from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok
from deploy.environment_settings import environment_file

Kind = Literal["bucket", "state", "dataset", "environment"]


class ExpectedSetting(StrictModel):
    """One row of settings.yaml, which says what the fields mean."""

    of: Kind
    path: str
    default: str = ""
    matches: str = ""
    at_least: float | None = None
    level: Level
    subject: str
    text: str
    command: str
    ok: str = ""

    def finding(self, resource: dict[str, Any], values: dict[str, str]) -> Finding | None:
        """The finding about this setting of a resource; None if it is as expected and the row has no text for that."""
        found = _at(resource, self.path.split("."))
        text = self.default if found is None else str(found)
        values = {**values, "found": text}
        subject = self.subject.format_map(values)
        if self._is_met(text, values):
            return ok(subject, self.ok.format_map(values)) if self.ok else None
        return Finding(self.level, subject, self.text.format_map(values), self.command.format_map(values))

    def _is_met(self, text: str, values: dict[str, str]) -> bool:
        if self.at_least is not None:
            return float(text) >= self.at_least
        pattern = self.matches.format_map({name: re.escape(value) for name, value in values.items()})
        return re.fullmatch(pattern, text) is not None


def _at(resource: Any, path: list[str]) -> Any:
    """The value at a path; None if there is none."""
    for name in path:
        resource = (resource or {}).get(name)
    return resource


@cache
def _expected_settings() -> tuple[ExpectedSetting, ...]:
    return read_model(RootModel[tuple[ExpectedSetting, ...]], Path(__file__).with_name("settings.yaml")).root


def check_settings(
    live: LiveEnvironment, kinds: tuple[Kind, ...], resource: dict[str, Any], *, name: str, update: str, role: str = ""
) -> Iterator[Finding]:
    """The findings about a resource's settings. `update`: the command that changes one, without its option."""
    environment = live.airflow_environment
    values = {
        "name": name,
        "update": update,
        "role": role,
        "project": live.project,
        "state_bucket": live.profile.state_bucket,
        "connection": live.profile.google_cloud_connection,
        "profile": profile_name(),
        "region": environment.region,
        "environment_bucket": environment.bucket,
        "airflow": environment.airflow,
        "file": f"deploy/{environment_file().name}",
    }
    for expected in _expected_settings():
        if expected.of in kinds and (finding := expected.finding(resource, values)):
            yield finding
