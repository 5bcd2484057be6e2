"""Parquet files as rows of a table: only declared columns are read, and a file that disagrees is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from devstack.bigquery.errors import Invalid, NotImplementedConstruct
from devstack.bigquery.sql.types import TableField, from_arrow_schema
from devstack.bigquery.storage.arrow_schema import conform, is_canonical


class ParquetSource:
    def __init__(self, uri: str, content: bytes, list_inference: bool) -> None:
        self.uri = uri
        self.content = content
        try:
            self._file = pq.ParquetFile(pa.BufferReader(content), coerce_int96_timestamp_unit="us")
            self.schema = self._file.schema_arrow
            self.fields = from_arrow_schema(self.schema)
        except pa.ArrowInvalid as error:
            raise Invalid(
                f"Error while reading data, error message: Input file is not in Parquet format or is damaged. "
                f"{error} File: {uri}"
            ) from error
        repeated = next((field.name for field in self.fields if field.mode == "REPEATED"), None)
        if repeated is not None and not list_inference:
            # BigQuery would make a RECORD with an inner [list] of it.
            raise NotImplementedConstruct(f"Parquet LIST column {repeated} without parquetOptions.enableListInference")

    def check(self, declared: Sequence[TableField]) -> None:
        found = {field.name.lower(): field for field in self.fields}
        for column in declared:
            field = found.pop(column.name.lower(), None)
            if field is None:
                if column.mode == "REQUIRED":
                    raise Invalid(f"{self._refusal()} Required field [{column.name}] is missing. File: {self.uri}")
                continue
            if field.sql_type().lower() != column.sql_type().lower():
                raise Invalid(
                    f"{self._refusal()} Parquet column '{column.name}' has type [{field.sql_type()}] which does not "
                    f"match the target type [{column.sql_type()}]. File: {self.uri}"
                )
        if found:
            raise Invalid(
                f"{self._refusal()} Parquet columns [{', '.join(field.name for field in found.values())}] are not in "
                f"the table's schema: add them to the schema or leave them out of the file. File: {self.uri}"
            )

    def rows(self, declared: Sequence[TableField]) -> pa.Table:
        try:
            return conform(self._file.read(), declared)
        except (pa.ArrowException, OSError) as error:
            raise Invalid(f"{self._refusal()} {error} File: {self.uri}") from error
        except Invalid as error:
            raise Invalid(f"{self._refusal()} {error.message} File: {self.uri}") from error

    def can_be_adopted(self, declared: Sequence[TableField]) -> bool:
        return is_canonical(self.schema, declared)

    @staticmethod
    def _refusal() -> str:
        return "Error while reading data, error message:"
