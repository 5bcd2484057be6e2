"""Completes the names of tables in a job's SQL."""

from __future__ import annotations

from dataclasses import dataclass

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.sql.statements import TableName
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
