"""What the first tasks of the operations share, before and after the approval."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.attempt_jobs import query_configuration
from dedup_clone.publish.date_ranges import MAX_RANGE_DAYS
from dedup_clone.publish.resolve import require_live_as_shown
from dedup_clone.publish.services import Services


def live_manifest(services: Services, operation: str, *, shown: int | None = None) -> Manifest:
    """The live generation's manifest.

    Raises ConfigurationError if none is live, so that there is nothing to `operation`, or another than `shown`, for
    which the operation was approved; and what `CurrentFile.read_for` raises.
    """
    generation = services.current.read_for(services.environment).generation
    if generation is None:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] has no live generation, so there is nothing to {operation}: publish a "
            f"snapshot first."
        )
    if shown is not None:
        require_live_as_shown(services, generation, shown)
    return services.manifests.read(generation)


def count_by_date(
    services: Services, sql: str, parameters: Mapping[str, tuple[str, str]], limit_bytes: int
) -> tuple[dict[date, int] | None, int]:
    """The `found_rows` of each `found_day` of a query, and the bytes that it reads.

    If those are more than `limit_bytes`, the query is not run, and there are no numbers. Raises JobFailed.
    """
    configuration = query_configuration(services, "preview", sql, parameters)
    size = services.warehouse.jobs.dry_run_select_bytes(configuration)
    if size > limit_bytes:
        return None, size
    found = services.warehouse.jobs.select(configuration, max_rows=MAX_RANGE_DAYS).first_rows
    return {row["found_day"]: int(row["found_rows"]) for row in found}, size
