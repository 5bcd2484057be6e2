"""Jobs of several threads share what is cached of a query."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot

from devstack.bigquery.jobs import table_scans


class ClearedByAnotherThread(dict[Any, Any]):
    """A cache that is cleared as soon as an entry has been added."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.clear()


def qualified_scopes() -> Any:
    return table_scans._qualified_scopes(
        sqlglot.parse_one("SELECT a FROM t0 AS t", read="bigquery"), {"t0": {"a": "INT64"}}
    )


def test_a_query_is_analysed_although_another_job_clears_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_scans, "_QUALIFIED_SCOPES", ClearedByAnotherThread())
    assert len(qualified_scopes()) == 1


def test_cached_scopes_have_their_columns_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_scans, "_QUALIFIED_SCOPES", {})
    (scope,) = qualified_scopes()
    assert [column.name for column in scope._columns] == ["a"]
