"""Stores each stored procedure as one JSON file."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bigquery_standin.atomic_files import JsonFiles
from bigquery_standin.bigquery_errors import Duplicate, Invalid, NotFound
from bigquery_standin.clock import Clock
from bigquery_standin.storage.model import DatasetId, TableId

ROUTINE_NAME = re.compile(r"[A-Za-z0-9_]{1,256}")


def routine_reference(routine: TableId) -> dict[str, str]:
    """The API's RoutineReference. A routine's id has the form of a table's."""
    return {"projectId": routine.project, "datasetId": routine.dataset, "routineId": routine.table}


@dataclass(frozen=True)
class Procedure:
    """A stored procedure for Apache Spark in Python.

    `parameters`: names and SQL types, in order. `connection`: `project.location.id`. `properties`: those of Spark.
    `uris`: further files by option, such as `py_file_uris`. The program is `code`, or else the file at `main_file_uri`.
    """

    id: TableId
    parameters: tuple[tuple[str, str], ...]
    connection: str
    properties: Mapping[str, str]
    uris: Mapping[str, tuple[str, ...]]
    runtime_version: str | None = None
    main_file_uri: str | None = None
    code: str | None = None
    description: str | None = None
    created_us: int = 0
    modified_us: int = 0


class RoutineStore:
    """The procedures of all datasets. Threads may share it."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._files = JsonFiles(folder, Procedure)
        self._clock = clock
        self._lock = threading.Lock()
        self._procedures = {procedure.id: procedure for procedure in self._files.read_all()}

    def find(self, routine: TableId) -> Procedure | None:
        return self._procedures.get(routine)

    def get(self, routine: TableId) -> Procedure:
        """Raises NotFound if the procedure does not exist."""
        procedure = self.find(routine)
        if procedure is None:
            raise NotFound(f"Not found: Routine {routine}")
        return procedure

    def list(self, dataset: DatasetId) -> list[Procedure]:
        found = [procedure for procedure in list(self._procedures.values()) if procedure.id.dataset_id == dataset]
        return sorted(found, key=lambda procedure: procedure.id)

    def save(self, procedure: Procedure, *, replaces: bool) -> None:
        """Creates the procedure or, if `replaces`, replaces an existing one.

        Raises Invalid for an invalid name, and Duplicate if the procedure exists and `replaces` is false.
        """
        if not ROUTINE_NAME.fullmatch(procedure.id.table):
            raise Invalid(f'Invalid routine ID "{procedure.id.table}": expected letters, digits and underscores.')
        with self._lock:
            current, now_us = self.find(procedure.id), self._clock.now_us()
            if current is not None and not replaces:
                raise Duplicate(f"Already Exists: Routine {procedure.id}")
            created_us = current.created_us if current else now_us
            procedure = replace(procedure, created_us=created_us, modified_us=now_us)
            self._files.write(_name(procedure.id), procedure)
            self._procedures[procedure.id] = procedure

    def drop(self, routine: TableId) -> None:
        """Raises NotFound if the procedure does not exist."""
        with self._lock:
            self.get(routine)
            self._files.remove(_name(routine))
            del self._procedures[routine]


def _name(routine: TableId) -> str:
    return f"{routine.project}/{routine.dataset}/{routine.table}"
