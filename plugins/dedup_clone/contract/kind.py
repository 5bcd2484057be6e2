"""What an attempt does: stored in CURRENT, in the attempt, in its manifest and in its ledger record."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What an attempt does. A replay is a publish."""

    PUBLISH = "publish"
    ROLLBACK = "rollback"
    BOOTSTRAP = "bootstrap"
    REBUILD = "rebuild"
    ERASE = "erase"
    RETIRE = "retire"
