"""Runs the job from attempt to candidate: validates deliveries, runs plans, copies dates forward, verifies landing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from uuid import uuid4

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.erasure import ErasedRows
from dedup_clone.contract.manifest import (
    Candidate,
    DeliveryMetrics,
    FileList,
    Manifest,
    RefusedDelivery,
    new_manifest,
)
from dedup_clone.contract.records import digest, to_json
from dedup_spark import storage
from dedup_spark.changes.change_files import write_changes
from dedup_spark.comparison.key_examples import select_examples
from dedup_spark.dispatch import DateRuns
from dedup_spark.erasure import erase_rows
from dedup_spark.execution.progress import JobLog
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.seed import read_seed
from dedup_spark.generation import (
    NewGeneration,
    as_taken_over,
    assemble_generation,
    copy_forward,
    refuse_duplicates,
)
from dedup_spark.landing.deliveries import Deliveries, LandedDelivery
from dedup_spark.parent import Parent, read_parent
from dedup_spark.plan_selection import DatePlan, applied_by_date, copying_plans
from dedup_spark.plans.date_task import WrittenDates


@dataclass(frozen=True)
class DedupJob:
    """One run of the job. A run that was lost is followed by another run of the same attempt, which repeats its work.

    `run_id`: names this run's data folder and records.
    """

    attempt: Attempt
    session: SessionSource
    job_log: JobLog
    run_id: str = field(default_factory=lambda: uuid4().hex[:12])

    def run(self) -> None:
        """Create `candidate.json` unless it exists.

        Raises DeliveryRefused if landed objects changed during the job, ContractViolation if a record or the parent's
        files are not as expected, other DedupCloneErrors, and errors of Spark and the storage.
        """
        candidate_uri = storage.join(self.attempt.folder_uri, "candidate.json")
        if storage.exists(candidate_uri):
            self.job_log.info(f"nothing to do: [{candidate_uri}] exists, the attempt is complete")
            return
        if storage.create_text(candidate_uri, to_json(self._in_own_folder()._candidate())):
            self.job_log.info(f"wrote [{candidate_uri}], seconds by phase: {self.job_log.seconds}")
        else:
            self.job_log.info(f"nothing changed: another run of this attempt wrote [{candidate_uri}] first")

    def _in_own_folder(self) -> DedupJob:
        """Return the job with a data folder to which no other run of the attempt writes."""
        data_uri = storage.join(self.attempt.data_uri, f"{self.run_id}/")
        return replace(self, attempt=replace(self.attempt, data_uri=data_uri))

    def _candidate(self) -> Candidate:
        """Do the work of the run, and return the candidate."""
        with self.job_log.phase("examine"):
            parent = read_parent(self.attempt)
            unread_plans = copying_plans(self.attempt, parent)
            application = self.session().sparkContext.applicationId  # waits until Spark has started
            self.job_log.info(f"run [{self.run_id}] is Spark application [{application}]")
        if unread_plans is not None:
            generation = self._assemble(unread_plans, {}, {}, parent)
            return self._finish(Deliveries(self.attempt), self.attempt.deliveries, generation, {}, parent)
        with self.job_log.phase("examine"):
            deliveries = Deliveries.read(self.attempt, parent.newest_id)
            seed = read_seed(self.attempt.seed_uri)
        plans, written = DateRuns(self.attempt, deliveries, parent, seed, self.session, self.job_log).run()
        self._log_refused(deliveries.refused)
        if not deliveries.applied:
            self.job_log.info("nothing to publish: every delivery was refused")
            return Candidate(refused=deliveries.refused, seconds=dict(self.job_log.seconds))
        by_date = applied_by_date(deliveries, parent)
        delivered = {day: [dated.delivery.snapshot_id for dated in found] for day, found in by_date.items()}
        generation = self._assemble(plans, delivered, written, parent)
        with self.job_log.phase("verify"):
            deliveries.require_unchanged()
        applied = tuple(landed.delivery for landed in deliveries.applied)
        if self.attempt.takes_over is None:
            return self._finish(deliveries, applied, generation, written, parent)
        refusal = refuse_duplicates(self.attempt, applied[0], generation)
        if refusal:
            self._log_refused([refusal])
            return Candidate(refused=(refusal,), seconds=dict(self.job_log.seconds))
        # The manifest names no delivery: the rows come from the export of an existing table.
        return self._finish(deliveries, (), as_taken_over(self.attempt, generation), written, parent)

    def _log_refused(self, refused: Iterable[RefusedDelivery]) -> None:
        for refusal in refused:
            self.job_log.info(f"refused: {refusal.reason}")

    def _assemble(
        self,
        plans: Mapping[date, DatePlan],
        delivered: Mapping[date, Sequence[int]],
        written: WrittenDates,
        parent: Parent,
    ) -> NewGeneration:
        """Return the new generation, with the files of the parent that it keeps.

        `delivered`: the snapshot ids of the applied deliveries by date.
        """
        generation = assemble_generation(self.attempt, plans, delivered, written, parent)
        with self.job_log.phase("copy forward"):
            return copy_forward(self.attempt, generation, parent, self.session)

    def _finish(
        self,
        deliveries: Deliveries,
        applied: tuple[Delivery, ...],
        generation: NewGeneration,
        written: WrittenDates,
        parent: Parent,
    ) -> Candidate:
        """Leave erased keys out, write the lists of files, of URIs to load and of changes, and return the candidate.

        `applied`: the deliveries that the manifest names.
        """
        generation, erased = self._erase(generation, applied, deliveries)
        attempt_uri = self.attempt.folder_uri
        file_list_uri = storage.join(attempt_uri, f"files-{self.run_id}.json")
        load_uris_uri = storage.join(attempt_uri, f"uris-{self.run_id}.txt")
        file_list = to_json(FileList(generation.files))
        storage.write_text(file_list_uri, file_list)
        uris = [storage.join(self.attempt.data_uri, file.path) for file in generation.files]
        storage.write_text(load_uris_uri, "".join(f"{uri}\n" for uri in uris))
        changes_uri = self._write_changes(applied, generation, parent)
        metrics = tuple(_delivery_metrics(deliveries, landed, written) for landed in deliveries.applied)
        dropped = parent.dropped_rows + sum(of_delivery.dropped_rows for of_delivery in metrics)
        manifest = new_manifest(
            self.attempt,
            applied,
            generation.dates,
            dropped_rows=dropped,
            created_at=datetime.now(UTC),
            data_folder=self.attempt.data_uri,
            file_list_digest=digest(file_list),
            deleted_dates={} if self.attempt.erases else generation.lost_dates(parent),
        )
        self.job_log.info(
            f"generation has {manifest.rows} rows in {len(manifest.dates)} dates ({len(generation.copied)} copied), "
            f"{sum(e.new_keys for e in manifest.dates)} new, {_changed_text(manifest)}, "
            f"{sum(e.survivors for e in manifest.dates)} missing in the snapshot, {dropped} dropped"
        )
        # Of a date with erased keys none is shown, because it may be one of these.
        shown = [of_date for day, of_date in written.items() if not erased or day not in erased.rows]
        examples = select_examples((example for of_date in shown for example in of_date.examples), manifest.dates)
        return Candidate(
            manifest,
            file_list_uri,
            load_uris_uri,
            metrics if applied else (),
            deliveries.refused,
            examples,
            dict(self.job_log.seconds),
            erased,
            changes_uri,
        )

    def _erase(
        self, generation: NewGeneration, applied: tuple[Delivery, ...], deliveries: Deliveries
    ) -> tuple[NewGeneration, ErasedRows | None]:
        """Return the generation without rows of erased keys, and the record of these rows.

        The attempt's `erasures` are the records of earlier erasures. Its `erases` is the file of keys to erase; it is
        empty in a publish.
        """
        attempt = self.attempt
        # A replay that changes nothing validates no delivery: it has no new rows, and cannot tell which erased keys its
        # deliveries contain.
        if not attempt.erases and not (attempt.erasures and deliveries.applied):
            return generation, None
        with self.job_log.phase("erase"):
            newest = None if attempt.erases else applied[-1]  # `applied` is empty in a takeover, which has no erasures
            generation, erased = erase_rows(attempt, generation, newest, self.session)
        examined = () if attempt.erases else _retained_dates(deliveries, deliveries.applied[-1])
        self.job_log.info(f"left {sum(erased.rows.values())} rows of erased keys out, on {len(erased.rows)} dates")
        return generation, replace(erased, examined=examined)

    def _write_changes(self, applied: tuple[Delivery, ...], generation: NewGeneration, parent: Parent) -> str | None:
        """Write the rows that differ from the parent's, and the list of the written files. Return the URI of the list.

        Returns None, and writes nothing, if the attempt asks for no changes or is an erasure, or if the parent has no
        date within the retention.
        """
        attempt = self.attempt
        if not attempt.changes_uri or not parent.dates or attempt.erases:
            return None
        with self.job_log.phase("changes"):
            written = write_changes(attempt, generation, parent, applied, self.run_id, self.session)
        uri = storage.join(attempt.folder_uri, f"changes-{self.run_id}.json")
        storage.write_text(uri, to_json(FileList(written)))
        self.job_log.info(f"wrote {sum(file.rows for file in written)} changes")
        return uri


def _retained_dates(deliveries: Deliveries, landed: LandedDelivery) -> tuple[date, ...]:
    """The dates of the delivery's rows that are within the retention, ascending."""
    days = deliveries.rows_by_date(landed)
    return tuple(sorted(day for day in days if day >= deliveries.attempt.retention_day))


def _delivery_metrics(deliveries: Deliveries, landed: LandedDelivery, written: WrittenDates) -> DeliveryMetrics:
    """Return how many rows the delivery has, and how many of them are too old or surplus."""
    rows_by_date, snapshot_id = deliveries.rows_by_date(landed), landed.delivery.snapshot_id
    dropped = sum(rows for day, rows in rows_by_date.items() if day < deliveries.attempt.retention_day)
    surplus_rows = sum(date_written.surplus_rows.get(snapshot_id, 0) for date_written in written.values())
    return DeliveryMetrics(landed.delivery, rows_by_date.total(), dropped, surplus_rows)


def _changed_text(manifest: Manifest) -> str:
    """The number of changed rows, for the log."""
    counts = [entry.changed for entry in manifest.dates if entry.changed is not None]
    not_compared = len(manifest.dates) - len(counts)
    return f"{sum(counts)} changed" + (f" (not compared on {not_compared} dates)" if not_compared else "")
