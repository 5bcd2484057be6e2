"""Computes what an attempt cost that published nothing."""

from __future__ import annotations

from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.spark_usage import SparkUsage
from dedup_clone.publish.records.attempt_records import find_swap
from dedup_clone.publish.records.best_effort import try_read
from dedup_clone.publish.records.publish_costs import cost_of, with_spark
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Intent
from dedup_clone.state.ledger import Cost
from dedup_clone.state.streamed_changes import StreamedChanges


def failed_attempt_cost(services: Services, intent: Intent, candidate: Candidate | None) -> Cost | None:
    """The cost of the attempt's jobs and Spark runs as far as it is recorded; None if it cannot be read.

    The checks' own queries of metadata, 10 MB each, count only if all checks passed.
    """

    def read() -> Cost:
        found = [services.warehouse.job(job_id) for job_id in intent.jobs]
        swap = find_swap(services, intent.attempt)
        streamed = services.store.read_record(StreamedChanges, services.layout.streamed_changes(intent.attempt))
        staging = services.warehouse.table(services.feed.staging) if streamed else None
        cost = cost_of(
            [job for job in found if job is not None],
            metadata_bytes_billed=swap.bytes_billed if swap else 0,
            merged=None,
            streamed=streamed,
            table_bytes=staging.size if staging else 0,
        )
        usage = services.store.read_record(SparkUsage, services.layout.spark_usage(intent.attempt))
        return with_spark(cost, usage, sum(candidate.metrics.seconds.values()) if candidate else None)

    return try_read(services, f"the ledger record of attempt [{intent.attempt}] has no cost", read)
