"""Runs SQL in a stand-in in this process, without HTTP, and returns statistics and rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from devstack.bigquery.jobs.job_record import JobRecord
from devstack.bigquery.stand_in import StandIn, open_stand_in
from devstack.bigquery.storage.model import TableId
from devstack.bigquery.storage.quotas import QuotaLimits
from devstack.bigquery.storage.row_pages import read_page

UNLIMITED = QuotaLimits(*[10**9] * len(fields(QuotaLimits)))
WAIT_S = 60


class Warehouse:
    """The stand-in, with all its data below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.stand_in: StandIn = open_stand_in(folder, UNLIMITED)

    def start(self, sql: str, **configured: Any) -> JobRecord:
        """Start a query job. `configured`: further fields of the job's configuration."""
        configuration = {"jobType": "QUERY", "query": {"query": sql, "useLegacySql": False}, **configured}
        record = JobRecord(
            "local-dev", "US", f"job_{uuid.uuid4().hex}", configuration, self.stand_in.clock.now_us()
        )  # fmt: skip
        return self.stand_in.jobs.insert(record)

    def wait(self, record: JobRecord) -> JobRecord:
        return self.stand_in.jobs.wait(record, WAIT_S)

    def run(self, sql: str) -> JobRecord:
        return self.wait(self.start(sql))

    def statistics(self, sql: str) -> Mapping[str, Any]:
        """Run a query, which must succeed, and return its statistics."""
        record = self.run(sql)
        assert record.error is None, record.error
        found: Mapping[str, Any] = record.statistics["query"]
        return found

    def view(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query, which must succeed, and return its rows in the query's order."""
        record = self.run(sql)
        assert record.error is None, record.error
        table = record.configuration["query"]["destinationTable"]
        return self.rows(f"{table['datasetId']}.{table['tableId']}")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All rows of `dataset.table`."""
        dataset, name = table.split(".")
        with self.stand_in.catalog.pinned(TableId("local-dev", dataset, name)) as version:
            columns = [column.name for column in version.settings.schema]
            found = read_page(self.stand_in.catalog.segments, version, 0, version.rows, columns, None)
        return [tuple(row[column] for column in columns) for row in found.to_pylist()]
