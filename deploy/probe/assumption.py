"""Defines an assumption about BigQuery or Cloud Storage, the decorator that registers its test, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from dedup_clone.contract.errors import DedupCloneError
from deploy.probe.probe_dataset import ProbeDataset


class ProbeVerdict(StrEnum):
    """The outcome of a test.

    NOT_TRIED: a right, a service or a feature was missing, the budget was spent, or the test itself has a fault.
    """

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_TRIED = "could not be tried"


class DoesNotHold(DedupCloneError):
    """BigQuery or Cloud Storage behaves differently from the assumption. The message says how."""


class CannotTry(DedupCloneError):
    """The test cannot run here: the command line names no POLICY_TAG, or a request that prepares the test was refused.

    The cause of a refusal is a missing right or an organization policy. The message says what was missing or refused.
    """


AssumptionTest = Callable[[ProbeDataset], str]


@dataclass(frozen=True)
class Assumption:
    """Something that this project relies on, and its test.

    `statement`: what is assumed. `rule`: what this project does because of it. `code`: the files that rely on it.
    `instead`: what to set or do if it does not hold. `test`: tests it and returns the evidence; raises DoesNotHold,
    CannotTry or BudgetSpent.
    """

    name: str
    statement: str
    rule: str
    code: tuple[str, ...]
    instead: str
    test: AssumptionTest

    @property
    def how(self) -> str:
        """How it is tested: the docstring of the test."""
        return " ".join((self.test.__doc__ or "").split())


@dataclass(frozen=True)
class Result:
    """The result of testing one assumption. `evidence`: what was found, or why it could not be tested."""

    assumption: Assumption
    verdict: ProbeVerdict
    evidence: str
    seconds: float


class Register:
    """A decorator that collects the assumptions of one module, in their order in the source."""

    def __init__(self) -> None:
        self.registered: list[Assumption] = []

    def __call__(
        self, name: str, *, statement: str, rule: str, code: tuple[str, ...], instead: str
    ) -> Callable[[AssumptionTest], AssumptionTest]:
        def register(test: AssumptionTest) -> AssumptionTest:
            self.registered.append(Assumption(name, statement, rule, code, instead, test))
            return test

        return register


def expect(what: str, found: object, expected: object) -> None:
    """Raises DoesNotHold if the two values differ. `what`: names the value in the message."""
    if found != expected:
        raise DoesNotHold(f"{what}: found [{found}], expected [{expected}].")
