"""Holds what the statements of one script share, and finds what a job's record says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotFound, StandInError
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.jobs.external_tables import ExternalTables
from bigquery_standin.jobs.job_store import JobRecord, JobStore
from bigquery_standin.jobs.query_parameters import Parameters
from bigquery_standin.sql.field_types import QueryValue
from bigquery_standin.sql.script_parser import parse_shared_script
from bigquery_standin.sql.statements import Insert, Mutation, TableName
from bigquery_standin.sql.transpile import to_duckdb
from bigquery_standin.storage.access import Caller
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import DatasetId, TableId


@dataclass(frozen=True)
class NameDefaults:
    """Completes table names without project or dataset. A job can use only datasets in its `location`.

    `project`: the job's. `dataset`, `dataset_project`: the job's default dataset and its project, None if not given.
    """

    project: str
    dataset: str | None
    dataset_project: str | None
    location: str

    def table(self, name: TableName) -> TableId:
        return TableId(*self._dataset(name.dataset, name.project, name.table), name.table)

    def dataset_id(self, name: TableName) -> DatasetId:
        return DatasetId(*self._dataset(name.dataset, name.project, name.table))

    def _dataset(self, dataset: str | None, project: str | None, table: str) -> tuple[str, str]:
        """Project and dataset. Raises InvalidQuery if neither the name nor the job has a dataset."""
        if dataset is not None:
            return project or self.project, dataset
        if self.dataset is None:
            raise InvalidQuery(
                f'Table "{table}" must be qualified with a dataset (e.g. dataset.table): the job has no default dataset'
            )
        return self.dataset_project or self.project, self.dataset


@dataclass
class ScriptState:
    """The state of one script: its variables, and what all its statements share.

    `jobs`: for INFORMATION_SCHEMA.JOBS. `variables`: by lower-case name.
    """

    catalog: Catalog
    session: DuckDbSession
    caller: Caller
    defaults: NameDefaults
    parameters: Parameters
    jobs: JobStore
    externals: ExternalTables
    variables: dict[str, QueryValue] = field(default_factory=dict)

    def check_location(self, dataset: DatasetId) -> None:
        """Raises NotFound unless the dataset exists and is in the job's location."""
        existing = self.catalog.datasets.find(dataset)
        if existing is None or existing.location != self.defaults.location:
            raise NotFound(f"Not found: Dataset {dataset} was not found in location {self.defaults.location}")

    def constant_value(self, expression: exp.Expression) -> Any:
        """The value of an expression that reads no table, such as the one in FOR SYSTEM_TIME AS OF."""

        def refuse(name: TableName, _: exp.Expression | None) -> str:
            raise InvalidQuery(f"Table [{name.table}] cannot be read inside a constant expression")

        sql = to_duckdb(exp.select(expression), refuse, self.parameters, self.variables, now=self.catalog.clock.now())
        _, rows = self.session.run(sql)
        return rows.column(0)[0].as_py()


DmlStatement = Mutation | Insert


def defaults_of(record: JobRecord) -> NameDefaults:
    default = record.configuration["query"].get("defaultDataset") or {}
    return NameDefaults(record.project, default.get("datasetId"), default.get("projectId"), record.location)


def dml_statement(record: JobRecord) -> tuple[DmlStatement, TableId] | None:
    """The statement and its table, if the job runs nothing but one INSERT, UPDATE, DELETE or MERGE; otherwise None."""
    if record.kind != "query":
        return None
    try:
        statements = parse_shared_script(record.configuration["query"]["query"]).statements
        if len(statements) == 1 and isinstance(statements[0], DmlStatement):
            return statements[0], defaults_of(record).table(statements[0].table)
    except StandInError:
        return None  # the job will fail with this error when it runs
    return None
