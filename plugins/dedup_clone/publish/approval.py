"""The approval of a run that accepts failed checks: the text to approve, and the lease while the run waits.

During the wait any other run of the feed may take the lease over.
"""

from __future__ import annotations

import re

from dedup_clone.checks.check_result import accepted_failures
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import ApprovalTooLate, LostRace
from dedup_clone.publish.records.attempt_records import find_check_results
from dedup_clone.publish.services import Services

_MARKUP = re.compile(r"([\\`*_\[\]<>|])")


def reason_as_typed(reason: str) -> str:
    """Why the approval is asked for, as Markdown that shows the reason as it was typed."""
    return "Reason given: " + _MARKUP.sub(r"\\\1", " ".join(reason.split()))


def approval_text(services: Services, attempt: Attempt) -> str | None:
    """Markdown with the evidence of each accepted failure; None when the run needs no approval."""
    results = find_check_results(services, attempt.id, "before")
    assert results is not None  # `check_before_swap` has just written them
    accepted = accepted_failures(results.items)
    if not accepted:
        return None
    table = "\n".join(f"| {r.check} | {_cell(r.found)} | {_cell(r.expected)} |" for r in accepted)
    deliveries = ", ".join(delivery.name for delivery in attempt.deliveries)
    return (
        f"**{services.feed.feed}: generation {attempt.generation}, from delivery {deliveries}, fails "
        f"{len(accepted)} check(s) that its run accepts**\n\n"
        f"{reason_as_typed(attempt.reason)}\n\n"
        f"| check | found | expected |\n| --- | --- | --- |\n{table}\n\n"
        f"Readers see generation {'none' if attempt.parent is None else attempt.parent} until you approve. If you "
        f"reject it, nothing changes. If a delivery arrives while this run waits, that delivery is published instead, "
        f"and this run publishes nothing, even if you approve."
    )


def end_approval_wait(services: Services, attempt: Attempt) -> None:
    """End the wait after the approval: no run may take over the lease any more.

    Raises ApprovalTooLate when another run has already taken it over.
    """
    try:
        services.current.end_approval_wait(attempt.id)
    except LostRace as error:
        raise ApprovalTooLate(
            f"Another run of [{services.feed.feed}] took the lease while this one waited: nothing of generation "
            f"[{attempt.generation}] was published. Clear the run from its first task: it then builds on the live "
            f"generation. ({error})"
        ) from error


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
