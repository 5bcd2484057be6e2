"""How much a test tries: a part in `make test`, everything with NIGHT=1."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

NIGHT = os.environ.get("NIGHT") == "1"

Case = TypeVar("Case")


def times(quick: int, night: int) -> int:
    """The number of tries in this run."""
    return night if NIGHT else quick


def seeds(count: int = 25) -> range:
    """The fixed seeds of a test of random histories: `count` of them, and 20 times as many at night."""
    return range(count * 20 if NIGHT else count)


def every_third(cases: Sequence[Case]) -> Sequence[Case]:
    """Every third case, such as the writes before which a run is killed; all of them at night."""
    return cases if NIGHT else cases[::3]
