"""The dedup step of the SQL engines: from the request to the candidate, in the worker. Knows no Airflow.

The candidate says what the next step will write to staging, and nothing is in staging yet. As with the Spark job it is
the step's commit point, created only if absent; every BigQuery job of the step runs once an attempt.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, DedupMetrics, DeliveryMetrics, Manifest, RefusedDelivery
from dedup_clone.contract.request import DedupRequest
from dedup_clone.engines.append import load_incoming
from dedup_clone.engines.evidence import Evidence, gather_evidence
from dedup_clone.engines.examination import ExaminedDelivery, examine, require_unchanged
from dedup_clone.engines.generation import build_manifest
from dedup_clone.publish.services import Services


def dedup_in_bigquery(services: Services, attempt: str) -> None:
    """Make the attempt's candidate, unless it has one.

    Raises DeliveryRefused when landing changed meanwhile, ContractViolation when target did, LostRace, JobFailed.
    """
    services.current.require_intent(attempt)
    if services.manifests.candidate(attempt) is None:
        services.manifests.write_candidate(attempt, _Step(services, _read_request(services, attempt)).candidate())


def _read_request(services: Services, attempt: str) -> DedupRequest:
    request = services.manifests.request(attempt)
    if request is None:
        name = services.store.uri(services.layout.request(attempt))
        raise ContractViolation(f"[{name}] is gone: clear the run from its first task.")
    return request


@dataclass
class _Step:
    services: Services
    request: DedupRequest
    seconds: dict[str, float] = field(default_factory=dict)

    def candidate(self) -> Candidate:
        with self._phase("examine"):
            found = examine(self.services, self.request)
        with self._phase("append"):
            applied, unreadable = load_incoming(self.services, self.request, found.applied)
        refused = found.refused + unreadable
        for item in refused:
            self.services.fact(f"refused: {item.reason}", snapshot_id=item.delivery.snapshot_id)
        if not applied:
            metrics = DedupMetrics(found.bytes_processed, 0, dict(self.seconds))
            return Candidate(None, None, None, (), refused, (), metrics)
        with self._phase("evidence"):
            evidence = self._evidence(applied)
        with self._phase("verify"):
            require_unchanged(self.services, self.request, applied)
        return self._hand_back(applied, refused, evidence, found.bytes_processed + evidence.bytes_processed)

    def _evidence(self, applied: tuple[ExaminedDelivery, ...]) -> Evidence:
        first = [item.first_day for item in applied if item.first_day]
        last = [item.last_day for item in applied if item.last_day]
        if not first:
            return Evidence((), (), 0)  # every row of every delivery is older than the retention
        return gather_evidence(self.services, self.request, min(first), max(last))

    def _hand_back(
        self,
        applied: tuple[ExaminedDelivery, ...],
        refused: tuple[RefusedDelivery, ...],
        evidence: Evidence,
        bytes_read: int,
    ) -> Candidate:
        ties = evidence.ties_by_snapshot()
        manifest = build_manifest(
            self.request,
            evidence,
            self._parent(),
            tuple(item.delivery for item in applied),
            delivered_rows_dropped=sum(item.dropped_rows for item in applied),
            now=self.services.now(),
        )
        deliveries = tuple(
            DeliveryMetrics(item.delivery, item.rows, item.dropped_rows, ties.get(item.delivery.snapshot_id, 0))
            for item in applied
        )
        metrics = DedupMetrics(bytes_read, 0, dict(self.seconds))
        return Candidate(manifest, None, None, deliveries, refused, evidence.examples, metrics)

    def _parent(self) -> Manifest | None:
        return None if self.request.parent is None else self.services.manifests.read(self.request.parent.generation)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - start, 3)
