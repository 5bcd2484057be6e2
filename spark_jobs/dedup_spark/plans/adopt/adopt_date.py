"""Runs plan adopt for one date, from its task to its outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dedup_clone.contract.attempt import Attempt
from dedup_spark import storage
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.validating_reader import ValidatingReader
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.adopt.adopted_files import copy_adopted
from dedup_spark.plans.adopt.normalized_files import NormalizedFiles, write_normalized
from dedup_spark.plans.adopt.survivor_files import write_survivors
from dedup_spark.plans.difference.compared_date import ComparedDate
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs, DeliveredSketches, InputOpener
from dedup_spark.plans.difference.diff_result import DiffResult
from dedup_spark.plans.difference.differences import find_differences
from dedup_spark.plans.written_date import DeclinedDate, Outcome, WrittenDate
from dedup_spark.sketch import stored
from dedup_spark.sketch.stored import StoredSketch


@dataclass(frozen=True)
class AdoptDate:
    """Adopts one date."""

    attempt: Attempt
    seed: Seed

    def __call__(self, task: ComparedDate, reader: ValidatingReader) -> Outcome | None:
        """Write the date's files and sketch below the data folder, or write nothing and decline the date.

        Return None if the newest delivery has no row. `reader` validates the files that have not been read yet. Raises
        UnsuitableFile or pyarrow's errors if a file cannot be used, and DeliveryRefused if a landed object has changed
        since the inventory was frozen.
        """
        inputs, delivered = InputOpener(task, reader, self.seed, self.attempt.exact).open()
        newest, *older = (dated.with_validations(reader.validations) for dated in task.deliveries)
        if not newest.rows:
            return None
        counted = replace(task, newest=newest, older=tuple(older))
        return self.compare_and_write(counted, inputs, delivered, reader)

    def compare_and_write(
        self,
        task: ComparedDate,
        inputs: ComparisonInputs,
        delivered: DeliveredSketches,
        reader: KeyReader,
    ) -> Outcome:
        """Compare the inputs, and write or decline the date.

        `delivered`: the sketches of the deliveries.
        """
        try:
            diff = find_differences(inputs, delivered, exact=self.attempt.exact)
        except TooManyDuplicates as error:
            return DeclinedDate(task.day, str(error))
        data_uri = self.attempt.data_uri
        sketch = StoredSketch(task.newest.delivery.snapshot_id, delivered.newest)
        stored.write(storage.join(data_uri, stored.path_of(task.day)), sketch)
        survivors = write_survivors(task, diff, reader, data_uri)
        normalized = write_normalized(task, diff, reader, data_uri)
        adopted = copy_adopted(task, normalized.uris, data_uri, reader.table)
        return WrittenDate(
            day=task.day,
            files=(*adopted, *survivors.copied, *normalized.files, *survivors.written),
            new_keys=diff.new_keys,
            changed=diff.changed,
            survivors=sum(file.rows for file in (*survivors.copied, *survivors.written)),
            surplus_rows={
                delivered.delivery.snapshot_id: diff.surplus_rows(source)
                for source, delivered in enumerate([*task.older, task.newest], start=PARENT_SOURCE + 1)
            },
            how=_how(task, inputs, diff, self.attempt.exact)
            + _normalized_reason(normalized, diff.surplus_rows(inputs.newest_source)),
            key_fingerprint=delivered.newest.digest(),
            examples=diff.examples(reader.table, task.day),
            cluster_overlap=reader.cluster_overlap(file.uri for file in task.newest.files),
            adopted_delivery=task.newest.delivery,
            wrote_sketch=True,
        )


def _how(task: ComparedDate, inputs: ComparisonInputs, diff: DiffResult, exact: bool) -> str:
    """Return what was compared, for the manifest."""
    if task.parent is None:
        return "the parent has no row of this date"
    if exact:
        return "all rows compared, as asked for"
    if diff.differing is None:
        how = "all rows compared, because more differ than the sketches can tell"
    elif not diff.differing:
        how = "same keys and values as before"
    else:
        how = f"[{diff.differing}] differing rows {'decoded' if diff.is_decoded else 'compared'}"
    return f"{how}; sketch of the parent {'stored' if inputs.base_was_stored else 'computed'}"


def _normalized_reason(normalized: NormalizedFiles, surplus_rows: int) -> str:
    text = ""
    if surplus_rows:
        text += f"; [{surplus_rows}] surplus rows of repeated keys left out"
    if normalized.cast_count:
        text += f"; [{normalized.cast_count}] files brought into the written form"
    return f"{text}; [{len(normalized.uris)}] files written anew" if text else ""
