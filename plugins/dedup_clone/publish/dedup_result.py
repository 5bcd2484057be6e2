"""Last step of the dedup task, whichever engine ran: ends the attempt if the dedup job refused every delivery."""

from __future__ import annotations

from dedup_clone.contract.errors import BootstrapRefused, ContractViolation, DeliveryRefused
from dedup_clone.publish.discard import discard
from dedup_clone.publish.services import Services


def end_if_all_refused(services: Services, attempt: str) -> None:
    """If the dedup job refused every delivery, record the refusals, end the attempt, and raise DeliveryRefused.

    Raises BootstrapRefused instead when the job refused the rows that a bootstrap or rebuild takes over;
    ContractViolation when the job left no candidate; LeaseLost when it refused every delivery, but the attempt has
    ended already.
    """
    candidate = services.manifests.candidate(attempt)
    if candidate is None:
        raise ContractViolation(
            f"Attempt [{attempt}] has no candidate manifest although its dedup job ended well: "
            f"clear the run from its first task."
        )
    if candidate.manifest is not None:
        return
    intent = services.current.require_intent(attempt)
    discard(services, intent)
    if intent.kind.takes_over_table:
        reasons = " ".join(refused.reason for refused in candidate.refused)
        raise BootstrapRefused(f"Rows of the table were refused: {reasons}")
    reasons = "\n  ".join(f"[{r.delivery.name}] {r.reason}" for r in candidate.refused)
    raise DeliveryRefused(f"Every delivery was refused; target is unchanged:\n  {reasons}")
