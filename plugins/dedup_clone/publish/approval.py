"""Checks that failed and that an operator accepts: what whoever approves the swap is told, and the lease meanwhile."""

from __future__ import annotations

from dedup_clone.checks.verdicts import accepted_fails
from dedup_clone.contract.errors import ApprovalTooLate, LostRace
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services
from dedup_clone.publish.verdict_files import read_kept


def approval_text(services: Services, order: PublishOrder) -> str | None:
    """Markdown with the evidence of each accepted fail, of the checks that were just kept; None when there is none."""
    fails = accepted_fails(read_kept(services, order.attempt, "before").items)
    if not fails:
        return None
    table = "\n".join(f"| {v.check} | {_cell(v.found)} | {_cell(v.expected)} |" for v in fails)
    return (
        f"**{services.feed.feed}: generation {order.generation} fails {len(fails)} check(s) that its run accepts**\n\n"
        f"Reason given: {order.reason}\n\n"
        f"| check | found | expected |\n| --- | --- | --- |\n{table}\n\n"
        f"Readers see generation {order.parent if order.parent is not None else 'none'} until you approve. Rejected: "
        f"nothing changes. A delivery that arrives meanwhile goes first, and this run then ends unpublished."
    )


def begin_wait(services: Services, order: PublishOrder) -> None:
    """Until somebody approves, the lease gives way to whoever wants it. Raises LostRace."""
    services.current.wait_for_approval(order.attempt)


def end_wait(services: Services, order: PublishOrder) -> None:
    """Approved: the lease is held again. Raises ApprovalTooLate when another run took it meanwhile."""
    try:
        services.current.end_wait(order.attempt)
    except LostRace as error:
        raise ApprovalTooLate(
            f"Another run of [{services.feed.feed}] took the lease while this one waited: nothing of generation "
            f"[{order.generation}] was published. Clear the run from its first task: it then works on what is current. "
            f"({error})"
        ) from error


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
