"""Runs plan adopt for one date, from its task to its outcome: in a Spark task, or on the driver for a split date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, Difference, KeyExample
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates
from dedup_spark.comparison.hashed_files import RowHashers
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.selected_rows import Columns
from dedup_spark.comparison.validating_reader import ValidatingReader
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.fingerprints import stored
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.adopt.adopted_files import copy_adopted
from dedup_spark.plans.adopt.comparison_inputs import ComparisonInputs, DeliveredFingerprints, open_inputs
from dedup_spark.plans.adopt.diff_result import DiffResult
from dedup_spark.plans.adopt.differences import DEFAULT_LIMITS, Limits, find_differences
from dedup_spark.plans.adopt.normalized_files import NormalizedFiles, write_normalized
from dedup_spark.plans.adopt.survivor_files import write_survivors
from dedup_spark.plans.delivered_date import expected_rows
from dedup_spark.plans.written_date import DeclinedDate, Outcome, WrittenDate


@dataclass(frozen=True)
class AdoptDate:
    """Adopts one date.

    `exact`: compare all keys, whatever the fingerprints say. `compare_values`: read value columns too, and count
    changed rows. `key_cache_bytes`: how many bytes of decoded keys may stay in memory between two passes over the
    files. `limits`: how many rows and hashes are compared at a time. `parts`: runs parts of the work as Spark tasks;
    None if this call does all of it.
    """

    table: TableContract
    seed: Seed
    data_uri: str
    exact: bool
    compare_values: bool
    key_cache_bytes: int
    limits: Limits
    parts: PartTasks | None = None

    @classmethod
    def from_attempt(cls, attempt: Attempt, seed: Seed, key_cache_bytes: int) -> Self:
        return cls(
            attempt.table,
            seed,
            attempt.data_uri,
            attempt.exact,
            attempt.compare_values,
            key_cache_bytes,
            DEFAULT_LIMITS,
        )

    def __call__(self, task: AdoptTask, reader: ValidatingReader) -> Outcome | None:
        """Write the date's files and fingerprints below the data folder, or write nothing and decline the date.

        Return None if the newest delivery has no row. `reader` validates the files that have not been read yet. Raises
        UnsuitableFile or pyarrow's errors if a file cannot be used, and DeliveryRefused if a landed object has changed
        since the inventory was frozen.
        """
        hashers = RowHashers.for_table(self.table, self.seed, compare_values=self.compare_values)
        rows = expected_rows(task.newest, task.parent)
        inputs = open_inputs(hashers, task, reader, self.key_cache_bytes, rows, self.parts)
        delivered = inputs.fingerprints()
        newest, *older = (dated.with_validations(reader.validations) for dated in task.deliveries)
        if not newest.rows:
            return None
        counted = replace(task, newest=newest, older=tuple(older))
        return self.compare_and_write(counted, inputs, delivered, reader)

    def compare_and_write(
        self,
        task: AdoptTask,
        inputs: ComparisonInputs,
        delivered: DeliveredFingerprints,
        reader: KeyReader,
    ) -> Outcome:
        """Compare the inputs, and write or decline the date.

        `delivered`: the fingerprints of the deliveries.
        """
        try:
            diff = find_differences(inputs, delivered, exact=self.exact, limits=self.limits)
        except TooManyDuplicates as error:
            return DeclinedDate(task.day, str(error))
        self._write_fingerprints(task, inputs, diff)
        survivors = write_survivors(task, diff, reader, self.data_uri)
        normalized = write_normalized(task, diff, reader, self.data_uri, self.parts)
        adopted = copy_adopted(task, normalized.uris, self.data_uri, self.table, self.parts)
        return WrittenDate(
            day=task.day,
            files=(*adopted, *survivors.copied, *normalized.files, *survivors.written),
            new_keys=diff.new_keys,
            changed=diff.changed if task.parent else 0,
            survivors=sum(file.rows for file in (*survivors.copied, *survivors.written)),
            surplus_rows={
                **{task.older[n - 1].delivery.snapshot_id: count for n, count in diff.older_surplus_rows.items()},
                task.newest.delivery.snapshot_id: diff.surplus_rows,
            },
            how=_how(task, inputs, diff, self.exact) + _normalized_reason(normalized, diff),
            key_fingerprint=diff.fingerprints.digest(),
            content_fingerprint=diff.fingerprints.values_digest(),
            examples=tuple(self._examples(task, diff)),
            cluster_overlap=reader.cluster_overlap(file.uri for file in task.newest.files),
            adopted_delivery=task.newest.delivery,
            wrote_fingerprints=True,
        )

    def _write_fingerprints(self, task: AdoptTask, inputs: ComparisonInputs, diff: DiffResult) -> None:
        """Write the fingerprints for the next publish, below the data folder."""
        fingerprints = stored.StoredFingerprints(task.newest.delivery.snapshot_id, diff.fingerprints)
        stored.write(storage.join(self.data_uri, stored.path_of(task.day)), fingerprints, inputs.hashers.keys)

    def _examples(self, task: AdoptTask, diff: DiffResult) -> Iterable[KeyExample]:
        for difference, samples in (
            (Difference.NEW, diff.new_examples),
            (Difference.CHANGED, diff.changed_examples),
            (Difference.SURVIVOR, diff.survivor_examples),
        ):
            # Without duplicates: `samples` may have a new key once for each delivery that has it.
            for text in list(dict.fromkeys(_key_texts(self.table, samples)))[:EXAMPLES_PER_DATE]:
                yield KeyExample(task.day, difference, text)


def _key_texts(table: TableContract, samples: Sequence[Columns]) -> list[str]:
    return [text for values in samples for text in key_texts(table, [column.to_pylist() for column in values])]


def _how(task: AdoptTask, inputs: ComparisonInputs, diff: DiffResult, exact: bool) -> str:
    """Return what was compared, for the manifest."""
    if task.parent is None:
        return "the parent has no row of this date"
    if exact:
        how = "all keys compared, as asked for"
    elif not diff.differing_bucket_count:
        same = "same keys and values as before" if diff.changed is not None else "same keys as before"
        return f"{same}: the parent's rows were not compared" if inputs.base_was_stored else same
    else:
        what = "keys" if diff.changed is None else "keys and values"
        how = f"{what} compared in {diff.differing_bucket_count} of {diff.bucket_count} buckets"
    source = "stored" if inputs.base_was_stored else "computed"
    return f"{how}, {'by rank' if diff.has_ranks else 'as 64-bit words'}; fingerprints of the parent {source}"


def _normalized_reason(normalized: NormalizedFiles, diff: DiffResult) -> str:
    text = ""
    if diff.surplus:
        text += f"; [{diff.surplus_rows}] surplus rows of repeated keys left out"
    if normalized.cast_count:
        text += f"; [{normalized.cast_count}] files brought into the written form"
    return f"{text}; [{len(normalized.uris)}] files written anew" if text else ""
