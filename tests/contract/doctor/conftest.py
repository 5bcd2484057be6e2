"""The doctor checks production, whatever profile tests have."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile without a variable; tests have the local one."""
    monkeypatch.delenv("DEDUP_CLONE_PROFILE", raising=False)
