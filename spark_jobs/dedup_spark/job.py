"""One attempt, from request to candidate: examine, dedup, copy what stays, look at landing again, hand back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import date
from uuid import uuid4

from dedup_clone.contract.delivery import Arrival, Delivery
from dedup_clone.contract.manifest import Candidate, DedupMetrics, DeliveryMetrics, FileList, Manifest, RefusedDelivery
from dedup_clone.contract.records import digest, to_json
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.adopt.applicability import obstacles
from dedup_spark.adopt.first_look import FirstLook
from dedup_spark.carry import carry
from dedup_spark.choice import Choice, choose, keep
from dedup_spark.costs import metrics_of
from dedup_spark.early_start import what_is_needed_starts
from dedup_spark.examples import choose_examples
from dedup_spark.failures import SPARK_FAILURES
from dedup_spark.fan_out import FanOut
from dedup_spark.generation import Generation, Results, assemble, header
from dedup_spark.landing.examination import Examination, ExaminedDelivery, Inspect, examine, require_unchanged
from dedup_spark.orders import read_arrivals
from dedup_spark.parent import Parent, read_parent
from dedup_spark.plan_runs import Looks, run_plans
from dedup_spark.progress import Facts
from dedup_spark.replays import changes_nothing
from dedup_spark.rewrite.file_sizes import in_too_many_files
from dedup_spark.rewrite.first_look import RewriteLook
from dedup_spark.session import Spark
from dedup_spark.takeover import TakeOver


@dataclass(frozen=True)
class DedupJob:
    """Spark is waited for only when it has something to do: it may be starting during the examination."""

    request: DedupRequest
    spark: Spark
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
            parent, arrivals = read_parent(self.request), read_arrivals(self.request)
            if changes_nothing(self.request, parent):
                return self._as_before(parent, tuple(arrival.delivery for arrival in arrivals))
        with what_is_needed_starts(self.spark, self.request, arrivals):
            with self.facts.phase("examine"):
                adopt = FirstLook(self.request, arrivals, parent, self.spark, self.facts.say)
                rewrite = RewriteLook(self.request, parent, self.spark, self.facts.say, others=adopt.inspect)
                found, looked = self._examine(arrivals, parent, rewrite.inspect), Looks(adopt, rewrite)
            found, choices, results = self._dedup(found, parent, looked)
        for refused in found.refused:
            self.facts.say(f"refused: {refused.reason}")
        if not found.applied:
            self.facts.say("nothing to publish: every delivery was refused")
            return self._refused(found.refused)
        delivered = Counter(day for examined in found.applied for day in examined.kept)
        generation = assemble(self.request.update_id_mode, choices, delivered, results, parent)
        with self.facts.phase("carry"):
            carry(parent, generation.carried, generation.same_fingerprints, self.request.data_uri, self._fan_out())
        with self.facts.phase("verify"):
            require_unchanged(self.request, found.applied)
        if self.request.takes_over is not None:
            return self._take_over(found, generation, results, parent)
        applied = tuple(examined.delivery for examined in found.applied)
        return self._hand_back(found, applied, generation, results, parent)

    def _take_over(self, found: Examination, generation: Generation, results: Results, parent: Parent) -> Candidate:
        """A generation that no delivery made."""
        take_over = TakeOver(self.request, self.spark)
        refusal = take_over.refusal(found.applied, generation)
        if refusal:
            self.facts.say(f"refused: {refusal.reason}")
            return self._refused((refusal,))
        candidate = self._hand_back(found, (), take_over.settled(generation), results, parent)
        return replace(candidate, deliveries=())

    def _refused(self, refused: tuple[RefusedDelivery, ...]) -> Candidate:
        return Candidate(None, None, None, (), refused, (), DedupMetrics(0, 0, dict(self.facts.seconds)))

    def _as_before(self, parent: Parent, asked: tuple[Delivery, ...]) -> Candidate:
        """The parent's dates and files, for deliveries that it holds already."""
        results = Results((), {}, {}, {})
        generation = assemble(self.request.update_id_mode, keep(parent.dates), {}, results, parent)
        with self.facts.phase("carry"):
            carry(parent, generation.carried, generation.same_fingerprints, self.request.data_uri, self._fan_out())
        return self._hand_back(Examination((), ()), asked, generation, results, parent)

    def _fan_out(self) -> FanOut:
        return FanOut(self.spark)

    def _examine(self, arrivals: tuple[Arrival, ...], parent: Parent, inspect: Inspect | None) -> Examination:
        """With `inspect` for the first time; without it after Spark failed, by reading every file whole."""
        newest = parent.newest_id
        return examine(self.request, arrivals, newest, self._fan_out(), whole=inspect is None, inspect=inspect)

    def _dedup(
        self, found: Examination, parent: Parent, looked: Looks
    ) -> tuple[Examination, dict[date, Choice], Results]:
        """Run the plans. When Spark fails, landed files that cannot be decoded are looked for, and the rest goes on."""
        while True:
            delivered = {day for examined in found.applied for day in examined.kept}
            unfit = in_too_many_files(found.applied, parent) | obstacles(self.request, found.applied, parent)
            choices = choose(self.request.plan, delivered, parent.dates, unfit, self.request.dates)
            try:
                return found, *run_plans(self.spark, self.request, found.applied, choices, parent, looked, self.facts)
            except SPARK_FAILURES:
                again = self._examine(tuple(e.arrival for e in found.applied), parent, None)
                if not again.refused:
                    raise
                found = replace(again, refused=found.refused + again.refused)

    def _hand_back(
        self,
        found: Examination,
        applied: tuple[Delivery, ...],
        generation: Generation,
        results: Results,
        parent: Parent,
    ) -> Candidate:
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
        manifest = header(self.request, generation, applied, dropped_rows=dropped, file_list_digest=digest(file_list))
        self.facts.say(
            f"generation has {manifest.rows} rows in {len(manifest.dates)} dates ({len(generation.carried)} copied), "
            f"{sum(e.new_keys for e in manifest.dates)} new, {_changed(manifest)}, "
            f"{sum(e.survivors for e in manifest.dates)} kept beyond the snapshot, {dropped} dropped"
        )
        metrics = metrics_of(found.applied, generation, results, parent, self.facts.seconds)
        examples = choose_examples(results.examples(), manifest.dates)
        return Candidate(manifest, file_list_uri, load_uris_uri, deliveries, found.refused, examples, metrics)


def _changed(manifest: Manifest) -> str:
    counts = [entry.changed for entry in manifest.dates if entry.changed is not None]
    left = len(manifest.dates) - len(counts)
    return f"{sum(counts)} changed" + (f" (not compared on {left} dates)" if left else "")


def _delivery_metrics(examined: ExaminedDelivery, ties: int) -> DeliveryMetrics:
    rows = sum(examined.rows_by_date.values())
    return DeliveryMetrics(examined.delivery, rows, rows - sum(examined.kept.values()), ties)
