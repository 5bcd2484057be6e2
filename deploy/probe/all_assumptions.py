"""Lists all assumptions, and tests them one after the other. A failed test does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from google.api_core.exceptions import (
    BadRequest,
    Conflict,
    GoogleAPIError,
    MethodNotImplemented,
    NotFound,
    PreconditionFailed,
)
from google.auth.exceptions import GoogleAuthError

from deploy.probe import (
    billing,
    changing_tables,
    clones,
    kept_properties,
    loads,
    objects,
    partitions,
    policies,
    publishes,
    repeated_jobs,
    swaps,
)
from deploy.probe.assumption import Assumption, CannotTry, DoesNotHold, ProbeVerdict, Result
from deploy.probe.probe_dataset import BudgetSpent, ProbeDataset

MAX_EVIDENCE_LENGTH = 400  # characters
# Tests catch the refusals that they expect. If another request is refused with one of these errors, the assumption is
# wrong.
REFUSALS = (BadRequest, Conflict, NotFound, PreconditionFailed)


def all_assumptions() -> tuple[Assumption, ...]:
    """All assumptions, in the order of the report."""
    modules = (
        publishes,
        clones,
        swaps,
        loads,
        policies,
        partitions,
        billing,
        objects,
        changing_tables,
        kept_properties,
        repeated_jobs,
    )
    # In each module, the decorator `assumption` has registered the module's assumptions.
    return tuple(assumption for module in modules for assumption in module.assumption.registered)


def try_all(
    probe: ProbeDataset, assumptions: Sequence[Assumption], log: Callable[[str], None] = lambda line: None
) -> list[Result]:
    """Test the assumptions, and return a result for each. If one could not be tested, its evidence says why."""
    results = []
    for number, assumption in enumerate(assumptions, 1):
        result = _try(probe, assumption)
        log(f"  {number:>2}/{len(assumptions)} {assumption.name:<36} {result.verdict} ({result.seconds:.1f} s)")
        results.append(result)
    return results


def _try(probe: ProbeDataset, assumption: Assumption) -> Result:
    started = time.monotonic()

    def result(verdict: ProbeVerdict, evidence: str) -> Result:
        return Result(assumption, verdict, " ".join(evidence.split())[:MAX_EVIDENCE_LENGTH], time.monotonic() - started)

    try:
        return result(ProbeVerdict.HOLDS, assumption.test(probe))
    except DoesNotHold as error:
        return result(ProbeVerdict.DOES_NOT_HOLD, str(error))
    except MethodNotImplemented as error:
        return result(ProbeVerdict.NOT_TRIED, f"The server does not support it: {error}")
    except REFUSALS as error:
        return result(ProbeVerdict.DOES_NOT_HOLD, f"A request of this test was refused: {error}")
    except (BudgetSpent, CannotTry, GoogleAPIError, GoogleAuthError, OSError) as error:
        # A missing right or login or an unavailable service says nothing about the assumption.
        return result(ProbeVerdict.NOT_TRIED, f"{type(error).__name__}: {error}")
    except Exception as error:  # a fault of the test, after which all others must still be reported
        return result(ProbeVerdict.NOT_TRIED, f"The test itself failed: {type(error).__name__}: {error}")
