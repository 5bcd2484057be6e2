from typing import Any

import pytest

from devstack.demo.airflow_api import AirflowApi


def test_an_import_error_without_a_stack_trace_is_named_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [
        {"filename": "a.py", "stack_trace": "\n"},
        {"filename": "b.py", "stack_trace": "Traceback\nKeyError: 1\n"},
    ]
    monkeypatch.setattr(AirflowApi, "get", lambda self, path: {"import_errors": errors})
    api: Any = AirflowApi.__new__(AirflowApi)
    assert api.import_errors() == ["a.py: no stack trace", "b.py: KeyError: 1"]
