"""Stores each dataset with its procedures as one JSON file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bigquery_standin.atomic_files import JsonFiles
from bigquery_standin.bigquery_errors import Duplicate, NotFound
from bigquery_standin.clock import Clock
from bigquery_standin.storage.model import Dataset, DatasetId, Procedure, TableId


class DatasetStore:
    """The properties of all datasets."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._files = JsonFiles(folder, Dataset)
        self._clock = clock
        self._lock = threading.Lock()
        self._datasets = {dataset.id: dataset for dataset in self._files.read_all()}

    def find(self, dataset_id: DatasetId) -> Dataset | None:
        return self._datasets.get(dataset_id)

    def get(self, dataset_id: DatasetId) -> Dataset:
        """Raises NotFound if the dataset does not exist."""
        dataset = self.find(dataset_id)
        if dataset is None:
            raise NotFound(f"Not found: Dataset {dataset_id}")
        return dataset

    def list(self, project: str) -> list[Dataset]:
        """The project's datasets without hidden ones, sorted by id."""
        listed = [one for one in list(self._datasets.values()) if one.id.project == project and not one.hidden]
        return sorted(listed, key=lambda dataset: dataset.id)

    def create(self, dataset: Dataset) -> Dataset:
        """Raises Duplicate if the dataset exists."""
        with self._lock:
            if dataset.id in self._datasets:
                raise Duplicate(f"Already Exists: Dataset {dataset.id}")
            now_us = self._clock.now_us()
            return self._write(replace(dataset, created_us=now_us, modified_us=now_us))

    def ensure_hidden(self, dataset_id: DatasetId, location: str) -> Dataset:
        """The dataset for anonymous query results of a project and location. Creates it if needed."""
        with self._lock:
            existing = self._datasets.get(dataset_id)
            now_us = self._clock.now_us()
            return existing or self._write(Dataset(dataset_id, location, now_us, now_us, hidden=True))

    def update(self, dataset_id: DatasetId, change: Callable[[Dataset], Dataset]) -> Dataset:
        """Raises NotFound if the dataset does not exist."""
        with self._lock:
            return self._write(replace(change(self.get(dataset_id)), modified_us=self._clock.now_us()))

    def procedure(self, routine: TableId) -> Procedure:
        """Raises NotFound if the procedure or its dataset does not exist."""
        procedure = self.get(routine.dataset_id).procedures.get(routine.table)
        if procedure is None:
            raise NotFound(f"Not found: Routine {routine}")
        return procedure

    def save_procedure(self, procedure: Procedure, *, replaces: bool) -> None:
        """Raises Duplicate if the procedure exists and `replaces` is false."""
        routine = procedure.id
        with self._lock:
            dataset = self.get(routine.dataset_id)
            if routine.table in dataset.procedures and not replaces:
                raise Duplicate(f"Already Exists: Routine {routine}")
            self._write(replace(dataset, procedures={**dataset.procedures, routine.table: procedure}))

    def remove(self, dataset_id: DatasetId) -> None:
        with self._lock:
            self._files.remove(_name(dataset_id))
            del self._datasets[dataset_id]

    def _write(self, dataset: Dataset) -> Dataset:
        self._files.write(_name(dataset.id), dataset)
        self._datasets[dataset.id] = dataset
        return dataset


def _name(dataset_id: DatasetId) -> str:
    return f"{dataset_id.project}/{dataset_id.dataset}"
