"""What an assumption is, how it is registered, and what trying it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from dedup_clone.contract.errors import DedupCloneError
from deploy.probe.world import World


class Verdict(StrEnum):
    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_TRIED = "could not be tried"


class DoesNotHold(DedupCloneError):
    """The platform does something else; the text says what."""


Try = Callable[[World], str]


@dataclass(frozen=True)
class Assumption:
    """`says`: what is assumed. `rule`: which of this project's rules stands on it. `attempt` gives the evidence."""

    name: str
    says: str
    rule: str
    attempt: Try

    @property
    def how(self) -> str:
        """How it is tried: the attempt's own description."""
        return " ".join((self.attempt.__doc__ or "").split())


@dataclass(frozen=True)
class Result:
    assumption: Assumption
    verdict: Verdict
    evidence: str
    seconds: float


class Register:
    """Collects the assumptions of one module, in the order in which they are written."""

    def __init__(self) -> None:
        self.all: list[Assumption] = []

    def __call__(self, name: str, *, says: str, rule: str) -> Callable[[Try], Try]:
        def register(attempt: Try) -> Try:
            self.all.append(Assumption(name, says, rule, attempt))
            return attempt

        return register


def expect(what: str, found: object, expected: object) -> None:
    """Raises DoesNotHold that names both."""
    if found != expected:
        raise DoesNotHold(f"{what}: found [{found}], expected [{expected}].")
