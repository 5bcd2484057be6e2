"""What is said of a ZetaSQL service that has ended, and of a query that it refuses."""

from __future__ import annotations

from unittest.mock import MagicMock

import grpc
import pytest

from devstack.zetasql.evaluate import EvaluationRefused, ReferenceEvaluator
from devstack.zetasql.install import ZetaSqlUnavailable
from devstack.zetasql.zetasql_service import Service


class _Failure(grpc.RpcError):  # type: ignore[misc]  # grpc has no types
    def __init__(self, code: grpc.StatusCode) -> None:
        self.code = lambda: code
        self.details = lambda: "what ZetaSQL says"


@pytest.mark.parametrize("call", ["GetAnalyzerOptions", "EvaluateQuery"])
def test_a_service_that_has_ended_has_refused_no_query(call: str) -> None:
    service = Service(MagicMock(), MagicMock(), MagicMock())
    getattr(service.stub, call).side_effect = _Failure(grpc.StatusCode.UNAVAILABLE)
    with pytest.raises(ZetaSqlUnavailable, match="what ZetaSQL says"):
        ReferenceEvaluator(service).evaluate("SELECT 1")


def test_a_refused_query_is_named_as_such() -> None:
    service = Service(MagicMock(), MagicMock(), MagicMock())
    service.stub.EvaluateQuery.side_effect = _Failure(grpc.StatusCode.OUT_OF_RANGE)
    with pytest.raises(EvaluationRefused, match="what ZetaSQL says"):
        ReferenceEvaluator(service).evaluate("SELECT 1 / 0")
