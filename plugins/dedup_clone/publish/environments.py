"""Decides which environment publishes a feed: the one that took the feed over last, else the one of its first lease.

Two environments must not publish one feed: neither can ask the other's Airflow whether a run is alive, and both give
their runs the same ids.
"""

from __future__ import annotations

from dedup_clone.contract.errors import ConfigurationError, ContractViolation, FeedHeldElsewhere
from dedup_clone.publish.recovery import commit_or_discard, require_visible_jobs
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Current


def require_in_use(services: Services) -> None:
    """Raise ConfigurationError when the feed is retired."""
    retired = services.retired.read()
    if retired is not None:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] was retired at {retired.retired_at:%Y-%m-%d %H:%M} UTC by run "
            f"[{retired.run_id}]: nothing was done. To use it again from its beginning, delete "
            f"[{services.store.uri(services.retired.name)}]."
        )


def restore_records(feed: str) -> str:
    """The next step when CURRENT is lost."""
    return f"Run `make recover FEED={feed} APPLY=1` (docs/runbook.md, lost records)."


def require_own_feed(services: Services) -> Current:
    """Return CURRENT.

    Raises FeedHeldElsewhere when another environment publishes the feed, ConfigurationError when it is retired,
    ContractViolation when CURRENT was deleted.
    """
    current = services.current.read()
    require_in_use(services)
    if services.current.is_lost(current):
        raise ContractViolation(
            f"[{services.store.uri(services.layout.current)}] is gone, so nobody knows what is published: records of "
            f"feed [{services.feed.feed}] are lost. {restore_records(services.feed.feed)}"
        )
    if services.is_foreign(current):
        raise FeedHeldElsewhere(
            f"Feed [{services.feed.feed}] is published by Airflow environment [{current.environment}], and this one is "
            f"[{services.environment}]: nothing was changed. To publish the feed from here, pause its DAGs there, "
            f"then trigger [{services.feed.feed}_publish] here with [take_over] and a reason."
        )
    return current


def take_over_feed(services: Services, reason: str) -> str:
    """Make this environment the one that publishes the feed; returns a sentence that says so.

    An unfinished attempt of the other environment is committed if its swap happened, else discarded. If tasks of that
    attempt still run, they find that it has lost the lease. Raises ConfigurationError when no other environment
    publishes the feed, when this one's account is not allowed to see the attempt's jobs, and when the feed is retired.
    Raises also what `commit_or_discard` raises.
    """
    require_in_use(services)
    former = services.current.read().environment
    if not former:
        raise ConfigurationError(
            f"No Airflow environment publishes feed [{services.feed.feed}] yet: trigger the DAG without [take_over]. "
            f"The first publish makes this environment the one that publishes the feed."
        )
    if former == services.environment:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] is published by this environment already: trigger the DAG without "
            f"[take_over]."
        )
    unfinished = services.current.read().intent
    if unfinished is not None:
        require_visible_jobs(services, unfinished)
    intent = services.current.take_over_feed(services.environment)
    text = f"environment [{services.environment}] took the feed over from [{former}]: {reason}"
    services.log(text)
    if intent is not None:
        commit_or_discard(services, intent)
    return f"{text}. {services.feed.feed}_watch starts a run for each delivery that waits, within five minutes."
