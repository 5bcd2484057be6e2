"""Reads landed files for the first time: the rows that are compared are judged in the same pass, decoded once.

All columns are decoded then. Keys, date and update_id are judged by their values; the others must be looked at too, for
an adopted file is loaded as it is, and a page that nobody can read would fail the load of all that came with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dedup_spark import storage
from dedup_spark.adopt.key_reader import KeyBatch, KeyReader, rows_of_size
from dedup_spark.landing.inspection import Inspected, Inspector, LandedFile, open_landed


class NotAdoptable(Exception):
    """A landed file that is wrong, or that pyarrow does not bring into the written form: no matter of this pass."""


@dataclass(kw_only=True)
class ExaminingReader(KeyReader):
    """The first read of each file of `landed` judges it, and is not counted; `inspected` are those that are good."""

    inspector: Inspector
    landed: dict[str, LandedFile]
    inspected: dict[str, Inspected] = field(default_factory=dict)

    def batches(self, uri: str, *, with_ids: bool, with_others: bool) -> Iterator[KeyBatch]:
        """Raises NotAdoptable, or whatever a damaged file makes of its reader."""
        if uri in self.landed and uri not in self.inspected:
            return self._examined(self.landed[uri], with_ids=with_ids, with_others=with_others)
        return super().batches(uri, with_ids=with_ids, with_others=with_others)

    def _examined(self, landed: LandedFile, *, with_ids: bool, with_others: bool) -> Iterator[KeyBatch]:
        with storage.open_input(landed.uri) as source, open_landed(source) as file:
            judgement = self.inspector.begin(landed, file)
            if not judgement.footer.is_castable:
                raise NotAdoptable(landed.uri)
            start = 0
            for group in range(file.num_row_groups):
                # pyarrow ends the process when it is asked for the chunk of an encrypted column: the group says enough.
                facts = file.metadata.row_group(group)
                rows = rows_of_size(facts.num_rows, facts.total_byte_size)
                for batch in file.iter_batches(rows, row_groups=[group], use_threads=False):
                    judgement.add(batch)
                    if not judgement.is_sound:
                        raise NotAdoptable(landed.uri)
                    if batch.num_rows:
                        yield self.key_batch(start, batch, with_ids=with_ids, with_others=with_others)
                    start += batch.num_rows
            inspected = judgement.inspected(file)
        if inspected.problems:
            raise NotAdoptable(landed.uri)
        self.inspected[landed.uri] = inspected
