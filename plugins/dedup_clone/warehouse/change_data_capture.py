"""Prepares tables for streamed changes, opens streams, and reads how far BigQuery has applied the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.table import Column
from dedup_clone.warehouse.append_rows import RowAppender, open_write_client
from dedup_clone.warehouse.row_messages import RowMessages
from dedup_clone.warehouse.sql_files import TableNames, render

if TYPE_CHECKING:
    from google.cloud.bigquery import Client


@dataclass(frozen=True)
class Watermark:
    """How far BigQuery has applied the changes streamed into a table. Times are by BigQuery's clock.

    `applied_until`: all changes acknowledged before this time are applied; None until BigQuery has applied some.
    `bytes_billed`: bytes billed for the query that read the watermark.
    """

    observed_at: datetime
    applied_until: datetime | None
    bytes_billed: int


def staleness_text(minutes: int) -> str:
    """The value of a table's option `max_staleness`, as BigQuery writes an interval."""
    return f"0-0 0 {minutes // 60}:{minutes % 60}:0"


_Select = Callable[[str, list[Any]], tuple[list[Any], int]]


class ChangeDataCapture:
    """Change data capture into the tables of one dataset.

    `select`: runs a query with parameters, returns its rows and the bytes billed.
    """

    def __init__(self, client: Client, *, project: str, dataset: str, sql_folder: Path, select: _Select) -> None:
        self._client = client
        self._project = project
        self._dataset = dataset
        self._sql_folder = sql_folder
        self._select = select

    def prepare(self, table_name: str, keys: Sequence[str], max_staleness_minutes: int) -> None:
        """Give a table the primary key and the option `max_staleness` that streamed changes need."""
        from google.cloud.bigquery.table import PrimaryKey, TableConstraints

        table = self._client.get_table(f"{self._project}.{self._dataset}.{table_name}")
        constraints = table.table_constraints
        primary_key = constraints.primary_key if constraints else None
        staleness, fields = staleness_text(max_staleness_minutes), []
        if primary_key is None or tuple(primary_key.columns) != tuple(keys):
            foreign_keys = constraints.foreign_keys if constraints else None
            table.table_constraints = TableConstraints(PrimaryKey(list(keys)), foreign_keys)
            fields.append("table_constraints")
        if table.max_staleness != staleness:
            table.max_staleness = staleness
            fields.append("max_staleness")
        if fields:
            self._client.update_table(table, fields)

    def open_stream(self, table_name: str, columns: Iterable[Column]) -> RowAppender:
        """Return an appender, which streams rows with these columns into the table."""
        table = f"projects/{self._project}/datasets/{self._dataset}/tables/{table_name}"
        return RowAppender(open_write_client(self._client._credentials), table, RowMessages(columns))

    def watermark(self, names: TableNames, table_name: str) -> Watermark:
        """How far BigQuery has applied the changes streamed into the table, which must exist."""
        from google.cloud.bigquery import ScalarQueryParameter

        sql = render(self._sql_folder, "engines/cdc/apply_watermark.sql", names=names)
        (row,), bytes_billed = self._select(sql, [ScalarQueryParameter("table_name", "STRING", table_name)])
        return Watermark(row["observed_at"], row["applied_until"], bytes_billed)
