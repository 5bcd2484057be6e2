"""Caches query results: a repeated query over unchanged tables returns its earlier result and bills nothing.

Some queries are never cached:

- those whose configuration has a destination table, external tables or `useQueryCache: false`;
- those with functions of the current time, SESSION_USER, random functions or TABLESAMPLE;
- those that read no table, the past of one, or INFORMATION_SCHEMA;
- those that read a table with policies, rows in the streaming buffer or pending row changes.

Source: "Using cached query results".
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from devstack.bigquery.jobs.job_record import JobRecord
from devstack.bigquery.jobs.statement_outcome import Outcome
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import TableId, TableVersion

MAXIMUM_RESULTS = 1000
_KEY_FIELDS = ("query", "queryParameters", "parameterMode", "defaultDataset")
_NOT_CACHEABLE = re.compile(
    r"\b(CURRENT_\w+|RAND|GENERATE_UUID|SESSION_USER|SYSTEM_TIME|INFORMATION_SCHEMA|TABLESAMPLE)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class _CachedResult:
    """`destination`: the table with the result's rows. `versions`: those that the query read, by table."""

    destination: TableId
    versions: Mapping[TableId, TableVersion]


class QueryCache:
    """The cached results of all queries. Threads may share it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._results: OrderedDict[str, _CachedResult] = OrderedDict()

    def find(self, record: JobRecord) -> Outcome | None:
        """The outcome of an earlier equal query, or None if the query must run."""
        key = _key(record)
        with self._lock:
            result = self._results.get(key) if key else None
        if result is None or self._catalog.find(result.destination) is None:
            return None
        if any(self._catalog.find(table) != version for table, version in result.versions.items()):
            return None
        tables = tuple(sorted(result.versions))
        return Outcome("SELECT", tables=tables, destination=result.destination, cache_hit=True)

    def store(self, record: JobRecord, outcome: Outcome) -> None:
        """Stores the result of a SELECT that has just run, if it may be cached, with the versions of its tables."""
        key = _key(record)
        if key is None or outcome.destination is None or not outcome.versions:
            return
        if any(
            version.is_protected or version.buffer or version.pending_changes for version in outcome.versions.values()
        ):
            return
        with self._lock:
            self._results[key] = _CachedResult(outcome.destination, outcome.versions)
            self._results.move_to_end(key)
            while len(self._results) > MAXIMUM_RESULTS:
                self._results.popitem(last=False)


def _key(record: JobRecord) -> str | None:
    """The key of equal queries; None if the configuration or the SQL text shows that the query is never cached."""
    query = record.configuration["query"]
    if query.get("useQueryCache") is False or query.get("destinationTable") or query.get("tableDefinitions"):
        return None
    if _NOT_CACHEABLE.search(query["query"]):
        return None
    fields = {name: query.get(name) for name in _KEY_FIELDS}
    return json.dumps([record.project, record.location, record.user, fields], sort_keys=True)
