"""Computes what a complete snapshot would cost at the full size that a feed declares."""

from __future__ import annotations

from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.records.publish_costs import expected_cost
from dedup_clone.publish.services import Services
from dedup_clone.state.index import IndexProjection
from dedup_clone.state.ledger import LedgerRecord

GB = 1e9  # bytes


def cost_at_full_size(
    services: Services, live: Manifest | None, records: tuple[LedgerRecord, ...]
) -> IndexProjection | None:
    """The cost at `full_size_gb`; None if the feed file has no `full_size_gb`, or if nothing is published or staged.

    `records`: of published attempts, newest last. It is assumed that rows keep their size and columns, and that the
    cost of Spark grows with the rows: the last recorded cost is multiplied by the factor by which the table grows.
    """
    full_size_gb = services.feed.full_size_gb
    staging = services.warehouse.table(services.feed.staging) if full_size_gb and live else None
    if full_size_gb is None or live is None or staging is None or not staging.size or not staging.rows:
        return None
    times = full_size_gb * GB / staging.size
    rows = staging.rows * times
    cost = expected_cost(services.feed.engine, live.table, staging.size / staging.rows, delivered=rows, existing=rows)
    spark = next((r.cost.spark_usd for r in reversed(records) if r.cost and r.cost.spark_usd is not None), None)
    return IndexProjection(
        full_size_gb=full_size_gb,
        times=times,
        usd=cost.total_usd,
        spark_usd=None if spark is None else spark * times,
        merge_usd=cost.merge_usd or 0.0,
        qualify_usd=cost.qualify_usd or 0.0,
    )
