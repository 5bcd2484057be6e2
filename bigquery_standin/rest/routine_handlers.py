"""Handles requests about routines, which are stored procedures for Apache Spark here."""

from __future__ import annotations

from typing import Any

from bigquery_standin.rest.request_response import ApiRequest, ApiResponse, paginate
from bigquery_standin.rest.table_resource import etag_of
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.model import DatasetId
from bigquery_standin.storage.routine_store import Procedure


def list_routines(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    dataset = DatasetId(request.project(), request.path["dataset"])
    stand_in.catalog.datasets.get(dataset)
    items, next_page = paginate(stand_in.catalog.routines.list(dataset), request)
    return ApiResponse({"routines": [_list_entry(procedure) for procedure in items]} | next_page)


def _list_entry(procedure: Procedure) -> dict[str, Any]:
    entry = {
        "routineReference": procedure.id.to_api(),
        "routineType": "PROCEDURE",
        "language": "PYTHON",
        "creationTime": str(procedure.created_us // 1000),
        "lastModifiedTime": str(procedure.modified_us // 1000),
    }
    return entry | {"etag": etag_of(entry)}
