"""The profile is chosen by one environment variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.deployment import Runner, read_deployment

PROFILES = Path(__file__).parents[3] / "dags" / "profiles"


def test_the_variable_chooses_the_profile() -> None:
    assert read_deployment(PROFILES, {"DEDUP_CLONE_PROFILE": "local"}).runner is Runner.LOCAL


def test_production_needs_no_variable() -> None:
    assert read_deployment(PROFILES, {}).runner is Runner.SERVERLESS


def test_an_unknown_profile_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"is \[prod\], expected one of \['gcp', 'local'\]"):
        read_deployment(PROFILES, {"DEDUP_CLONE_PROFILE": "prod"})
