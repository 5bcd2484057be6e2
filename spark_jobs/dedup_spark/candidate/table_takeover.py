"""Takes an existing table over as the first generation: the job handles its exported files like a delivery.

The rows keep their update ids. A table with duplicate keys is refused, unless the request says to keep the latest rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import functions as f

from dedup_clone.contract.manifest import DateEntry, RefusedDelivery
from dedup_clone.contract.request import DedupRequest, Duplicates
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.candidate.new_manifest import NewGeneration
from dedup_spark.comparison.key_examples import EXAMPLES_PER_DATE, key_texts
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.plans.dataframe.sources import delivered_rows

_MAX_NAMED_DATES = 5


@dataclass(frozen=True)
class TableTakeover:
    """The steps of a takeover that deliveries do not need.

    `session`: with it, examples of duplicate keys are read if the table is refused.
    """

    request: DedupRequest
    session: SessionSource

    def refusal(self, applied: tuple[ValidatedDelivery, ...], generation: NewGeneration) -> RefusedDelivery | None:
        """Return why the table cannot be taken over: keys that it holds more than once. None if it can.

        The request's `takes_over` says what to do about duplicate keys.
        """
        duplicated = sorted((e for e in generation.dates if e.ties), key=lambda e: (-e.ties, e.date))
        if not duplicated or self.request.takes_over is not Duplicates.REFUSE:
            return None
        named = "; ".join(
            f"{e.date}: {e.ties}, such as {self._examples(applied, e.date)}" for e in duplicated[:_MAX_NAMED_DATES]
        )
        more = f"; and {len(duplicated) - _MAX_NAMED_DATES} more dates" if len(duplicated) > _MAX_NAMED_DATES else ""
        reason = (
            f"The existing table cannot become feed [{self.request.feed}]: it holds "
            f"[{sum(e.ties for e in duplicated)}] rows whose key ({', '.join(self.request.table.keys)}) another row "
            f"has, on [{len(duplicated)}] dates: {named}{more}. Nothing was changed. Next: delete the surplus rows, or "
            f"trigger the DAG again with duplicates [{Duplicates.KEEP_LATEST}]: of each key it keeps the row with the "
            f"highest {self.request.table.snapshot_id_column}; if several rows have it, the one with the greatest "
            f"values."
        )
        return RefusedDelivery(applied[0].delivery, reason)

    def without_mixed_fingerprints(self, generation: NewGeneration) -> NewGeneration:
        """Return the generation without the fingerprints of dates whose rows have several update ids.

        Their fingerprints cover all rows, but the next publish needs fingerprints of the rows with the date's highest
        update id alone.
        """
        return replace(generation, dates=tuple(map(self._without_mixed_fingerprints, generation.dates)))

    def _without_mixed_fingerprints(self, entry: DateEntry) -> DateEntry:
        is_fit = self.request.update_id_mode is UpdateIdMode.LAST_CHANGED or entry.min_update_id == entry.max_update_id
        return entry if is_fit else replace(entry, key_fingerprint=None, content_fingerprint=None)

    def _examples(self, applied: tuple[ValidatedDelivery, ...], day: date) -> str:
        table = self.request.table
        rows = delivered_rows(self.session(), table, applied, {day})
        assert rows is not None  # the date has surplus rows
        of_day = rows.where(f.col(table.partition_column) == f.lit(day))
        duplicated = of_day.groupBy(*table.keys).count().where("count > 1").limit(EXAMPLES_PER_DATE).collect()
        values = [[_plain(row[column.name]) for row in duplicated] for column in key_columns(table)]
        return "; ".join(key_texts(table, values))


def _plain(value: object) -> object:
    """The value as `key_texts` expects it. Spark returns BYTES as a bytearray."""
    return bytes(value) if isinstance(value, bytearray) else value
