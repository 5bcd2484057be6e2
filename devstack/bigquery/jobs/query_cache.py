"""Cached results: a query that was asked before, over tables that did not change, is answered by its old result.

Source: "Using cached query results". Such a query reads and bills nothing. Never cached: queries with a destination
table or external tables, what tells the time, chance or a user, reads of the past or of INFORMATION_SCHEMA, and
whatever was asked with `useQueryCache: false`.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from devstack.bigquery.jobs.record import JobRecord
from devstack.bigquery.jobs.statement_outcome import Outcome
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import TableId, TableVersion

RESULTS_KEPT = 1000
_SETTINGS = ("query", "queryParameters", "parameterMode", "defaultDataset")
_CHANGING = re.compile(
    r"\b(CURRENT_\w+|RAND|GENERATE_UUID|SESSION_USER|SYSTEM_TIME|INFORMATION_SCHEMA|TABLESAMPLE)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class _Result:
    destination: TableId
    versions: Mapping[TableId, TableVersion]


class QueryCache:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._results: OrderedDict[str, _Result] = OrderedDict()

    def find(self, record: JobRecord) -> Outcome | None:
        """The outcome of a hit; None when the query must be run."""
        key = _key(record)
        with self._lock:
            result = self._results.get(key) if key else None
        if result is None or self._catalog.find(result.destination) is None:
            return None
        if any(self._catalog.find(table) != version for table, version in result.versions.items()):
            return None
        tables = tuple(sorted(result.versions))
        return Outcome("SELECT", tables=tables, destination=result.destination, cache_hit=True)

    def keep(self, record: JobRecord, outcome: Outcome) -> None:
        """Remember the result of a SELECT that has just run, with the versions of the tables that it read."""
        key = _key(record)
        if key is None or outcome.destination is None or not outcome.versions:
            return
        with self._lock:
            self._results[key] = _Result(outcome.destination, outcome.versions)
            self._results.move_to_end(key)
            while len(self._results) > RESULTS_KEPT:
                self._results.popitem(last=False)


def _key(record: JobRecord) -> str | None:
    query = record.configuration["query"]
    if query.get("useQueryCache") is False or query.get("destinationTable") or query.get("tableDefinitions"):
        return None
    if _CHANGING.search(query["query"]):
        return None
    asked = {name: query.get(name) for name in _SETTINGS}
    return json.dumps([record.project, record.location, asked], sort_keys=True)
