"""Streams the key columns of Parquet files, batch by batch, cast to the declared types, and validates landed files.

Validation decodes all columns in the same pass. Keys, dates and update_ids are validated by their values. The other
columns must be readable too, because an adopted file is loaded as it is: an unreadable page would fail the load job of
all files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.table import Column, TableContract
from dedup_spark import storage
from dedup_spark.arrays import I64Array
from dedup_spark.arrow_cast import complete_batch
from dedup_spark.column_types import text_columns
from dedup_spark.fingerprints.key_columns import as_declared, key_columns
from dedup_spark.landing.file_validation import FileValidation, FileValidator, LandedFile


@dataclass(frozen=True)
class KeyBatch:
    """Consecutive rows of a file, from row number `first_row` on. Texts may be encoded by dictionaries.

    `value_columns` is None if it was not requested.
    """

    first_row: int
    key_columns: tuple[pa.Array, ...]
    update_ids: I64Array
    value_columns: tuple[pa.Array, ...] | None

    @property
    def rows(self) -> int:
        return len(self.key_columns[0])


@dataclass
class KeyReader:
    """Reads files of one table."""

    table: TableContract

    def batches(self, uri: str, *, with_values: bool) -> Iterator[KeyBatch]:
        """Yield the rows of a file in order, in batches that are not empty; values only on request."""
        columns = self._columns(with_values=with_values)
        with storage.open_input(uri) as source, storage.open_parquet(source, texts=text_columns(columns)) as file:
            for first_row, batch in storage.read_batches(file, [column.name for column in columns]):
                yield self.key_batch(uri, first_row, batch, with_values=with_values)

    def _columns(self, *, with_values: bool) -> list[Column]:
        """The key columns, the update id and, on request, the value columns."""
        update_id = self.table.column(self.table.snapshot_id_column)
        return [*key_columns(self.table), update_id, *(self.table.value_columns if with_values else ())]

    def metadata(self, uri: str) -> pq.FileMetaData:
        """The footer of a file."""
        with storage.open_input(uri) as source, storage.open_parquet(source) as file:
            return file.metadata

    def key_batch(self, uri: str, first_row: int, batch: pa.RecordBatch, *, with_values: bool) -> KeyBatch:
        """The requested columns of a decoded batch, with the declared types. A value column that it lacks is NULL."""
        batch = complete_batch(self.table, uri, batch, self._columns(with_values=with_values))

        def declared(columns: tuple[Column, ...]) -> tuple[pa.Array, ...]:
            return tuple(as_declared(column, batch.column(column.name)) for column in columns)

        ids = batch.column(self.table.snapshot_id_column).cast(pa.int64()).to_numpy()
        values = declared(self.table.value_columns) if with_values else None
        return KeyBatch(first_row, declared(key_columns(self.table)), ids, values)


@dataclass(kw_only=True)
class ValidatingReader(KeyReader):
    """Validates each file of `landed` when it is first read. `validations`: results of valid files. Both are by URI."""

    validator: FileValidator
    landed: dict[str, LandedFile]
    validations: dict[str, FileValidation] = field(default_factory=dict)

    def batches(self, uri: str, *, with_values: bool) -> Iterator[KeyBatch]:
        """Yield a file's rows, as KeyReader does. Raises UnsuitableFile, or any error of pyarrow for a damaged file."""
        if uri in self.landed and uri not in self.validations:
            return self._validated(self.landed[uri], with_values=with_values)
        return super().batches(uri, with_values=with_values)

    def metadata(self, uri: str) -> pq.FileMetaData:
        """The footer of a file. Raises UnsuitableFile if it is that of a landed file and invalid."""
        if uri not in self.landed or uri in self.validations:
            return super().metadata(uri)
        with storage.open_input(uri) as source:
            return self.validator.begin(self.landed[uri], source).file.metadata

    def _validated(self, landed: LandedFile, *, with_values: bool) -> Iterator[KeyBatch]:
        with storage.open_input(landed.uri) as source:
            validation = self.validator.begin(landed, source)
            for first_row, batch in storage.read_batches(validation.file):
                validation.add(batch)
                yield self.key_batch(landed.uri, first_row, batch, with_values=with_values)
            self.validations[landed.uri] = validation.finish()
