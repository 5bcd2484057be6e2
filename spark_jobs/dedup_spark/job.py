"""One attempt, from request to candidate: examine, dedup, copy what stays, look at landing again, hand back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from uuid import uuid4

from pyspark.sql import SparkSession

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Candidate, DedupMetrics, DeliveryMetrics, FileList
from dedup_clone.contract.records import digest, to_json
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.adopt.applicability import obstacles
from dedup_spark.carry import carry
from dedup_spark.choice import Choice, choose
from dedup_spark.costs import metrics_of
from dedup_spark.examples import choose_examples
from dedup_spark.failures import SPARK_FAILURES
from dedup_spark.fan_out import FanOut
from dedup_spark.generation import Generation, Results, assemble, header
from dedup_spark.landing.examination import Examination, ExaminedDelivery, examine, require_unchanged
from dedup_spark.orders import read_arrivals
from dedup_spark.parent import Parent, read_parent
from dedup_spark.plan_runs import run_plans
from dedup_spark.progress import Facts


@dataclass(frozen=True)
class DedupJob:
    """`session` is waited for only when Spark has something to do: it may be starting during the examination."""

    request: DedupRequest
    session: Callable[[], SparkSession]
    facts: Facts

    def run(self) -> None:
        """Raises DeliveryRefused when landing changed under the job, ContractViolation when state did."""
        candidate_uri = storage.join(self.request.attempt_uri, "candidate.json")
        if storage.exists(candidate_uri):
            self.facts.say(f"nothing to do: [{candidate_uri}] exists, the attempt is complete")
        elif storage.create_text(candidate_uri, to_json(self._candidate())):
            self.facts.say(f"wrote [{candidate_uri}], seconds by phase: {self.facts.seconds}")
        else:
            self.facts.say(f"nothing changed: another run of this request wrote [{candidate_uri}] first")

    def _candidate(self) -> Candidate:
        with self.facts.phase("examine"):
            parent = read_parent(self.request)
            found = self._examine(read_arrivals(self.request), parent, whole=False)
        found, choices, results = self._dedup(found, parent)
        for refused in found.refused:
            self.facts.say(f"refused: {refused.reason}")
        if not found.applied:
            self.facts.say("nothing to publish: every delivery was refused")
            return Candidate(None, None, None, (), found.refused, (), DedupMetrics(0, 0, dict(self.facts.seconds)))
        delivered = Counter(day for examined in found.applied for day in examined.kept)
        generation = assemble(self.request.update_id_mode, choices, delivered, results, parent)
        with self.facts.phase("carry"):
            same_keys = generation.carried | (results.fingerprints.keys() - results.costs.keys())
            carry(parent, generation.carried, same_keys, self.request.data_uri, self._fan_out())
        with self.facts.phase("verify"):
            require_unchanged(self.request, found.applied)
        return self._hand_back(found, generation, results, parent)

    def _fan_out(self) -> FanOut:
        return FanOut(self.session)

    def _examine(self, arrivals: tuple[Arrival, ...], parent: Parent, *, whole: bool) -> Examination:
        return examine(self.request, arrivals, parent.newest_id, self._fan_out(), whole=whole)

    def _dedup(self, found: Examination, parent: Parent) -> tuple[Examination, dict[date, Choice], Results]:
        """Run the plans. When Spark fails, landed files that cannot be decoded are looked for, and the rest goes on."""
        while True:
            delivered = {day for examined in found.applied for day in examined.kept}
            unfit = obstacles(self.request, found.applied, parent)
            choices = choose(self.request.plan, delivered, parent.dates, unfit)
            try:
                return found, *run_plans(self.session, self.request, found.applied, choices, parent, self.facts)
            except SPARK_FAILURES:
                again = self._examine(tuple(e.arrival for e in found.applied), parent, whole=True)
                if not again.refused:
                    raise
                found = replace(again, refused=found.refused + again.refused)

    def _hand_back(self, found: Examination, generation: Generation, results: Results, parent: Parent) -> Candidate:
        """Writes the two lists, under names of this run's own, and returns the candidate that names them."""
        run, attempt_uri = uuid4().hex[:12], self.request.attempt_uri
        file_list_uri = storage.join(attempt_uri, f"files-{run}.json")
        load_uris_uri = storage.join(attempt_uri, f"uris-{run}.txt")
        file_list = to_json(FileList(generation.files))
        storage.write_text(file_list_uri, file_list)
        uris = [storage.join(self.request.data_uri, file.path) for file in generation.files]
        storage.write_text(load_uris_uri, "".join(f"{uri}\n" for uri in uris))
        deliveries = tuple(
            _delivery_metrics(examined, results.ties(number)) for number, examined in enumerate(found.applied, start=1)
        )
        dropped = parent.dropped_rows + sum(metrics.dropped_rows for metrics in deliveries)
        applied = tuple(examined.delivery for examined in found.applied)
        manifest = header(self.request, generation, applied, dropped_rows=dropped, file_list_digest=digest(file_list))
        self.facts.say(
            f"generation has {manifest.rows} rows in {len(manifest.dates)} dates ({len(generation.carried)} copied), "
            f"{sum(e.new_keys for e in manifest.dates)} new, {sum(e.changed or 0 for e in manifest.dates)} changed, "
            f"{sum(e.survivors for e in manifest.dates)} kept beyond the snapshot, {dropped} dropped"
        )
        metrics = metrics_of(found.applied, generation, results, parent, self.facts.seconds)
        examples = choose_examples(results.examples(), manifest.dates)
        return Candidate(manifest, file_list_uri, load_uris_uri, deliveries, found.refused, examples, metrics)


def _delivery_metrics(examined: ExaminedDelivery, ties: int) -> DeliveryMetrics:
    rows = sum(examined.rows_by_date.values())
    return DeliveryMetrics(examined.delivery, rows, rows - sum(examined.kept.values()), ties)
