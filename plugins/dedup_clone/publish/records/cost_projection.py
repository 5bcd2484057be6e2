"""Computes what future publishes cost: what engine `cdc` streams, and a complete snapshot at the table's full size."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.manifest import DateOutcome, Manifest
from dedup_clone.publish.records.publish_costs import expected_cost, with_stream
from dedup_clone.publish.services import Services
from dedup_clone.state.index import IndexProjection
from dedup_clone.state.ledger import PUBLISHES_COMPARED, Cost, LedgerRecord
from dedup_clone.warehouse.metadata import TableMetadata

GB = 1e9  # bytes


def cost_at_full_size(
    services: Services, live: Manifest | None, records: tuple[LedgerRecord, ...]
) -> IndexProjection | None:
    """The cost at `full_size_gb`; None if the feed file has no `full_size_gb`, or if nothing is published or staged.

    `records`: of published attempts, newest last. It is assumed that rows keep their size and columns, and that the
    same share of them changes.
    """
    full_size_gb, engine = services.feed.full_size_gb, services.feed.engine
    staging = services.warehouse.table(services.feed.staging) if full_size_gb and live else None
    if full_size_gb is None or live is None or staging is None or not staging.size or not staging.rows:
        return None
    times = full_size_gb * GB / staging.size
    rows = staging.rows * times
    cost = expected_cost(engine, live.table, staging.size / staging.rows, delivered=rows, existing=rows)
    cost = with_expected_stream(services, cost, engine, live, staging, records, times=times)
    return IndexProjection(
        full_size_gb=full_size_gb,
        times=times,
        usd=cost.total_usd,
        spark_usd=_spark_usd(engine, records, rows) if engine.runs_spark else None,
        merge_usd=cost.merge_usd or 0.0,
        qualify_usd=cost.qualify_usd or 0.0,
    )


def with_expected_stream(
    services: Services,
    cost: Cost,
    engine: Engine,
    live: Manifest | None,
    staging: TableMetadata | None,
    records: Sequence[LedgerRecord],
    *,
    times: float = 1.0,
) -> Cost:
    """Add to the `cost` of a future publish what engine `cdc` streams and applies; nothing for the other engines.

    It streams as many rows as in the last publishes (median), at most `cdc.max_changed_share`. `times`: by how much
    the table will have grown.
    """
    if engine is not Engine.CDC or live is None or staging is None or not staging.rows:
        return cost
    most = services.feed.cdc.max_changed_share * live.rows
    counts = [r.new_rows + r.changed_rows for r in records if r.has_usual_shares and r.changed_rows is not None]
    streamed = min(median(counts[-PUBLISHES_COMPARED:]), most) if counts else most
    return with_stream(cost, round(streamed * times * staging.size / staging.rows), round(staging.size * times))


def _spark_usd(engine: Engine, records: Sequence[LedgerRecord], rows: float) -> float | None:
    """The cost of Spark for a snapshot of `rows`; None if no publish by this engine is known that allows to tell.

    The last publish of one complete delivery in order is taken. What its job cost grows with the rows. What the start
    of Spark cost before that, by the share of time, is counted once.
    """
    for record in reversed(records):
        usd = record.cost.spark_usd if record.cost else None
        if usd is None or record.engine is not engine or not record.rows or not _is_complete_and_in_order(record):
            continue
        job_s, start_s = record.phases.get("dedup", 0.0), record.phases.get("spark_start", 0.0)
        share = job_s / (job_s + start_s) if job_s else 1.0
        return usd * (1 - share + share * rows / record.rows)
    return None


def _is_complete_and_in_order(record: LedgerRecord) -> bool:
    """Whether it published one delivery that had all dates and no older snapshot id than what was live."""
    is_newest = len(record.deliveries) == 1 and record.deliveries[0].snapshot_id == record.snapshot_id
    return is_newest and not record.is_replay and DateOutcome.COPIED_FORWARD not in record.plans
