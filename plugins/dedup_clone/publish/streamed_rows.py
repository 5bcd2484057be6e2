"""Decides whether a publish waits for rows that somebody streamed into staging or target, before it checks and swaps.

BigQuery's clone of a table lacks the rows of its streaming buffer, and a replacement of the table drops them.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from dedup_clone.checks.table_checks import describe_buffer
from dedup_clone.publish.load import read_candidate
from dedup_clone.publish.records.published_record import arrival_time_of_newly_live
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec

# The share of the freshness SLA that is left for checks, swap and commit after the wait.
SHARE_AFTER_WAIT = 0.1


def reason_to_wait(services: Services, spec: PublishSpec) -> str | None:
    """The tables that have a streaming buffer, in words; None if no table has one, or if there is no time left to wait.

    Without time left the run goes on, and its check `streaming_buffer` fails.
    """
    tables = [services.warehouse.table(name) for name in (services.feed.staging, services.feed.target)]
    buffered = [describe_buffer(table, services.now()) for table in tables if table and table.streaming_buffer]
    if not buffered or services.now() >= _end_of_wait(services, spec):
        return None
    return "; ".join(buffered)


def _end_of_wait(services: Services, spec: PublishSpec) -> datetime:
    """The time until which the freshness SLA lets the run wait.

    The SLA counts from the arrival of the newest delivery that was never live before. Without such a delivery, as in a
    rollback or bootstrap, it counts from the time when the run acquired the lease.
    """
    _, manifest = read_candidate(services, spec)
    parent = None if spec.parent is None else services.manifests.read(spec.parent)
    arrived_at = arrival_time_of_newly_live(services, manifest, parent)
    begin = arrived_at or services.current.require_intent(spec.attempt).taken_at
    return begin + timedelta(minutes=services.feed.freshness.sla_minutes) * (1 - SHARE_AFTER_WAIT)
