"""The approval of a run that accepts failed checks: the text to approve, and the lease while the run waits.

During the wait any other run of the feed may take the lease over.
"""

from __future__ import annotations

import re

from dedup_clone.checks.check_result import accepted_failures
from dedup_clone.contract.errors import ApprovalTooLate, LostRace
from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec

_MARKUP = re.compile(r"([\\`*_\[\]<>|])")


def reason_as_typed(reason: str) -> str:
    """Why the approval is asked for, as Markdown that shows the reason as it was typed."""
    return "Reason given: " + _MARKUP.sub(r"\\\1", " ".join(reason.split()))


def approval_text(services: Services, spec: PublishSpec) -> str | None:
    """Markdown with the evidence of each accepted failure; None when the run needs no approval.

    Raises ContractViolation when the check results are gone.
    """
    accepted = accepted_failures(read_check_results(services, spec.attempt, "before").items)
    if not accepted:
        return None
    table = "\n".join(f"| {r.check} | {_cell(r.found)} | {_cell(r.expected)} |" for r in accepted)
    request = services.manifests.request(spec.attempt)
    deliveries = ", ".join(item.delivery.name for item in request.deliveries) if request else ""
    return (
        f"**{services.feed.feed}: generation {spec.generation}, from delivery {deliveries or 'unknown'}, fails "
        f"{len(accepted)} check(s) that its run accepts**\n\n"
        f"{reason_as_typed(spec.reason)}\n\n"
        f"| check | found | expected |\n| --- | --- | --- |\n{table}\n\n"
        f"Readers see generation {spec.parent if spec.parent is not None else 'none'} until you approve. If you reject "
        f"it, nothing changes. If a delivery arrives while this run waits, that delivery is published instead, and "
        f"this run publishes nothing, even if you approve."
    )


def begin_approval_wait(services: Services, spec: PublishSpec) -> None:
    """Let any other run take over the lease until the approval. Raises LostRace when the attempt has lost the lease."""
    services.current.begin_approval_wait(spec.attempt)


def end_approval_wait(services: Services, spec: PublishSpec) -> None:
    """End the wait after the approval: no run may take over the lease any more.

    Raises ApprovalTooLate when another run has already taken it over.
    """
    try:
        services.current.end_approval_wait(spec.attempt)
    except LostRace as error:
        raise ApprovalTooLate(
            f"Another run of [{services.feed.feed}] took the lease while this one waited: nothing of generation "
            f"[{spec.generation}] was published. Clear the run from its first task: it then builds on the live "
            f"generation. ({error})"
        ) from error


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
