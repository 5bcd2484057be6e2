"""Lets the doctor check the profile for Google Cloud, although other tests use the local profile."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variable that names the local profile. Without it the default, the profile `gcp`, is used."""
    monkeypatch.delenv("DEDUP_CLONE_PROFILE", raising=False)
