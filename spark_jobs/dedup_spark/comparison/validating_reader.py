"""Validates landed files and reads their keys in one pass.

This pass decodes all columns. Keys, dates and update_ids are validated by their values. The other columns must be
readable too, because an adopted file is loaded as it is: an unreadable page would fail the load job of all files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyBatch, KeyReader, rows_per_batch
from dedup_spark.landing.file_validation import FileValidation, FileValidator, LandedFile


class UnsuitableFile(Exception):
    """A landed file is invalid. Whoever has received batches of it must discard what was computed from them."""


@dataclass(kw_only=True)
class ValidatingReader(KeyReader):
    """Validates each file of `landed` when it is first read. `validations`: results of valid files. Both are by URI."""

    validator: FileValidator
    landed: dict[str, LandedFile]
    validations: dict[str, FileValidation] = field(default_factory=dict)

    def batches(self, uri: str, *, with_ids: bool, with_values: bool) -> Iterator[KeyBatch]:
        """Yield a file's rows, as KeyReader does. Raises UnsuitableFile, or any error of pyarrow for a damaged file."""
        if uri in self.landed and uri not in self.validations:
            return self._validated(self.landed[uri], with_ids=with_ids, with_values=with_values)
        return super().batches(uri, with_ids=with_ids, with_values=with_values)

    def metadata(self, uri: str) -> pq.FileMetaData:
        """The footer of a file. Raises UnsuitableFile if it is that of a landed file and invalid."""
        if uri not in self.landed or uri in self.validations:
            return super().metadata(uri)
        with storage.open_input(uri) as source:
            validation = self.validator.begin(self.landed[uri], source)
            if validation.footer.problems:
                raise UnsuitableFile(uri)
            return validation.file.metadata

    def _validated(self, landed: LandedFile, *, with_ids: bool, with_values: bool) -> Iterator[KeyBatch]:
        with storage.open_input(landed.uri) as source:
            validation = self.validator.begin(landed, source)
            if validation.footer.problems:
                raise UnsuitableFile(landed.uri)
            file, first_row = validation.file, 0
            for group in range(file.num_row_groups):
                # The sizes of the column chunks are not read: pyarrow crashes on the metadata of an encrypted one.
                metadata = file.metadata.row_group(group)
                rows = rows_per_batch(metadata.num_rows, metadata.total_byte_size)
                for batch in file.iter_batches(rows, row_groups=[group], use_threads=False):
                    validation.add(batch)
                    if not validation.is_valid:
                        raise UnsuitableFile(landed.uri)
                    if batch.num_rows:
                        yield self.key_batch(landed.uri, first_row, batch, with_ids=with_ids, with_values=with_values)
                    first_row += batch.num_rows
            result = validation.finish()
            if result.problems:
                raise UnsuitableFile(landed.uri)
            self.note_ranges(landed.uri, file)
        self.validations[landed.uri] = result
