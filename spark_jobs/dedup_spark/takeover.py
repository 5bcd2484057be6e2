"""An existing table as the first generation: its export is judged and written like a delivery, and is none.

Its rows keep the update ids that they have. Keys that it holds more than once are counted in any case; they end the
attempt unless the request says how they are resolved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import functions as f

from dedup_clone.contract.manifest import DateEntry, RefusedDelivery
from dedup_clone.contract.request import DedupRequest, Duplicates
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.examples import MOST_A_DATE, key_texts
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.generation import Generation
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.session import Spark
from dedup_spark.sources import delivered_rows

_DATES_NAMED = 5


@dataclass(frozen=True)
class TakeOver:
    """Spark's session is asked for only when there are doubled keys to name."""

    request: DedupRequest
    spark: Spark

    def refusal(self, applied: tuple[ExaminedDelivery, ...], generation: Generation) -> RefusedDelivery | None:
        """Why the table cannot be taken over as it is: keys that it holds more than once."""
        doubled = sorted((e for e in generation.dates if e.ties), key=lambda e: (-e.ties, e.date))
        if not doubled or self.request.takes_over is not Duplicates.REFUSE:
            return None
        named = "; ".join(
            f"{e.date}: {e.ties}, such as {self._examples(applied, e.date)}" for e in doubled[:_DATES_NAMED]
        )
        more = f"; and {len(doubled) - _DATES_NAMED} more dates" if len(doubled) > _DATES_NAMED else ""
        reason = (
            f"The existing table cannot become feed [{self.request.feed}]: it holds [{sum(e.ties for e in doubled)}] "
            f"rows whose key ({', '.join(self.request.table.keys)}) another row has, on [{len(doubled)}] dates: "
            f"{named}{more}. Nothing was changed. Next: remove them from the table, or trigger the bootstrap again "
            f"with duplicates [{Duplicates.KEEP_LATEST}], which keeps of each key the row of the highest "
            f"{self.request.table.snapshot_id_column}, and of those the one with the greatest values."
        )
        return RefusedDelivery(applied[0].delivery, reason)

    def settled(self, generation: Generation) -> Generation:
        """Without the fingerprints that the next publish would misread: they are to be of rows with one update id."""
        return replace(generation, dates=tuple(map(self._settled, generation.dates)))

    def _settled(self, entry: DateEntry) -> DateEntry:
        is_fit = self.request.update_id_mode is UpdateIdMode.LAST_CHANGED or entry.min_update_id == entry.max_update_id
        return entry if is_fit else replace(entry, key_fingerprint=None, content_fingerprint=None)

    def _examples(self, applied: tuple[ExaminedDelivery, ...], day: date) -> str:
        table = self.request.table
        rows = delivered_rows(self.spark.session(), table, applied, {day})
        assert rows is not None  # the date has rows, some of them too many
        of_day = rows.where(f.col(table.partition_column) == f.lit(day))
        doubled = of_day.groupBy(*table.keys).count().where("count > 1").limit(MOST_A_DATE).collect()
        values = [[_plain(row[column.name]) for row in doubled] for column in key_columns(table)]
        return "; ".join(key_texts(table, values))


def _plain(value: object) -> object:
    """Spark hands bytes back as an array that can be changed."""
    return bytes(value) if isinstance(value, bytearray) else value
