"""What a person may see and start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rights:
    """Each answers for a DAG id: may this person read it, may this person start a run of it."""

    may_read: Callable[[str], bool]
    may_trigger: Callable[[str], bool]
