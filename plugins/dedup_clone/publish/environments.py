"""Which Airflow environment publishes a feed: the one that acquired its first lease, until another takes the feed over.

Airflow cannot be asked about the runs of another environment, and run ids are equal in both.
"""

from __future__ import annotations

from dedup_clone.contract.errors import ConfigurationError, FeedHeldElsewhere
from dedup_clone.publish.recovery import finish_or_discard
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Current


def require_own_feed(services: Services) -> Current:
    """CURRENT. Raises FeedHeldElsewhere when another environment publishes the feed."""
    current = services.current.read()
    if services.is_foreign(current):
        raise FeedHeldElsewhere(
            f"[{services.feed.feed}] is published by Airflow environment [{current.environment}], and this one is "
            f"[{services.environment}]: nothing was changed. To publish it from here, pause the feed's DAGs there, "
            f"then trigger [{services.feed.feed}_publish] here with [take_over] and a reason."
        )
    return current


def take_over_feed(services: Services, reason: str) -> str:
    """Make this environment the one that publishes the feed; returns a sentence that says so.

    An attempt of the other environment is committed if its swap happened, else discarded. Its tasks, should they still
    run, find that they lost the lease. Raises ConfigurationError without a reason, or when the feed is this one's.
    """
    former = services.current.read().environment
    if former in ("", services.environment):
        raise ConfigurationError(
            f"[{services.feed.feed}] is published by this environment already: trigger the DAG without [take_over]."
        )
    if not reason:
        raise ConfigurationError("Say why this environment takes the feed over: parameter [reason].")
    intent = services.current.take_over_feed(services.environment)
    text = f"environment [{services.environment}] took the feed over from [{former}]: {reason}"
    services.log(text)
    if intent is not None:
        finish_or_discard(services, intent)
    return f"{text}. FEED_watch starts a run for each delivery that waits, within five minutes."
