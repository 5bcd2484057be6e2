"""Tries every assumption, one after the other; none takes another down."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from google.api_core.exceptions import GoogleAPIError, MethodNotImplemented

from deploy.probe import billing, clones, loads, objects, partitions, policies, swaps
from deploy.probe.assumption import Assumption, DoesNotHold, Result, Verdict
from deploy.probe.world import BudgetSpent, World

LONGEST_EVIDENCE = 400


def all_assumptions() -> tuple[Assumption, ...]:
    """In the order of the report."""
    modules = (clones, swaps, loads, policies, partitions, billing, objects)
    return tuple(assumption for module in modules for assumption in module.assumption.all)


def try_all(
    world: World, assumptions: Sequence[Assumption], say: Callable[[str], None] = lambda line: None
) -> list[Result]:
    """One result for each. What cannot be tried says why."""
    results = []
    for number, assumption in enumerate(assumptions, 1):
        result = _try(world, assumption)
        say(f"  {number:>2}/{len(assumptions)} {assumption.name:<36} {result.verdict} ({result.seconds:.1f} s)")
        results.append(result)
    return results


def _try(world: World, assumption: Assumption) -> Result:
    started = time.monotonic()

    def result(verdict: Verdict, evidence: str) -> Result:
        return Result(assumption, verdict, " ".join(evidence.split())[:LONGEST_EVIDENCE], time.monotonic() - started)

    try:
        return result(Verdict.HOLDS, assumption.attempt(world))
    except DoesNotHold as error:
        return result(Verdict.DOES_NOT_HOLD, str(error))
    except MethodNotImplemented as error:
        return result(Verdict.NOT_TRIED, f"The server does not carry it out: {error}")
    except (BudgetSpent, GoogleAPIError, OSError) as error:
        # A statement that the attempt needs, and that is not what it tries, was refused: no evidence either way.
        return result(Verdict.NOT_TRIED, f"{type(error).__name__}: {error}")
