"""Writes plans of feeds as text for a terminal, or as Markdown for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dedup_clone.publish.previews.feed_plan import FeedPlan

NOTHING, PROBLEMS, CHANGES = 0, 1, 2  # exit statuses of `make plan`


def exit_status(plans: Iterable[FeedPlan]) -> int:
    """1 if the next publish of a feed is refused, else 2 if a feed file changes something, else 0."""
    plans = list(plans)
    if any(plan.problems for plan in plans):
        return PROBLEMS
    return CHANGES if any(plan.changes for plan in plans) else NOTHING


def plans_as_text(plans: Sequence[FeedPlan]) -> str:
    return "\n".join(line for plan in plans for line in _text_lines(plan))


def plans_as_markdown(plans: Sequence[FeedPlan]) -> str:
    return "\n".join(line for plan in plans for line in _markdown_lines(plan)).rstrip()


def _text_lines(plan: FeedPlan) -> Iterator[str]:
    yield f"{plan.feed}: {_summary(plan)}"
    for item in plan.changes:
        yield f"  change   {item.change}"
        yield f"           the next publish: {item.effect}"
        yield f"           readers: {item.readers}"
        yield f"           costs: {item.cost}"
    yield from (f"  problem  {problem}" for problem in plan.problems)
    yield from (f"  note     {note}" for note in plan.notes)
    if plan.waiting and (plan.changes or plan.problems):
        yield f"  waiting  {', '.join(plan.waiting)}"


def _markdown_lines(plan: FeedPlan) -> Iterator[str]:
    yield f"**{plan.feed}**: {_summary(plan)}"
    yield ""
    if plan.changes:
        yield "| Change | The next publish | Readers | Costs |"
        yield "| --- | --- | --- | --- |"
        for item in plan.changes:
            cells = [cell.replace("|", r"\|") for cell in (item.change, item.effect, item.readers, item.cost)]
            yield f"| {' | '.join(cells)} |"
        yield ""
    points = [*(f"- **Problem**: {problem}" for problem in plan.problems), *(f"- Note: {note}" for note in plan.notes)]
    if points:
        yield from points
        yield ""


def _summary(plan: FeedPlan) -> str:
    counts = [
        f"{len(items)} {name}{'s' if len(items) > 1 else ''}"
        for name, items in (("change", plan.changes), ("problem", plan.problems))
        if items
    ]
    live = "never published" if plan.live_generation is None else f"generation {plan.live_generation} is live"
    if not plan.is_compared:
        live = "not compared"
    return f"{', '.join(counts) or 'nothing to do'} ({live})"
