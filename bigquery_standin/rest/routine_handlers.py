"""Handles requests about routines, which are stored procedures for Apache Spark here."""

from __future__ import annotations

from typing import Any

from bigquery_standin.rest.request_response import ApiRequest, ApiResponse, paginate
from bigquery_standin.rest.table_resource import etag_of
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.type_parser import field_of_type
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.model import DatasetId
from bigquery_standin.storage.routine_store import Procedure, RoutineId

# The fields of a routine in a list. Source: REST reference of routines.list.
_LISTED = ("etag", "routineReference", "routineType", "creationTime", "lastModifiedTime", "language")
_FILE_FIELDS = {
    "py_file_uris": "pyFileUris",
    "jar_uris": "jarUris",
    "file_uris": "fileUris",
    "archive_uris": "archiveUris",
}


def list_routines(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    dataset = DatasetId(request.project(), request.path["dataset"])
    stand_in.catalog.datasets.get(dataset)
    items, next_page = paginate(stand_in.catalog.routines.list(dataset), request)
    resources = [_resource(procedure) for procedure in items]
    routines = [{key: resource[key] for key in _LISTED} for resource in resources]
    return ApiResponse({"routines": routines} | next_page)


def get_routine(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    routine = RoutineId(request.project(), request.path["dataset"], request.path["routine"])
    stand_in.catalog.datasets.get(routine.dataset_id)
    return ApiResponse(_resource(stand_in.catalog.routines.get(routine)))


def _resource(procedure: Procedure) -> dict[str, Any]:
    spark: dict[str, Any] = {"connection": procedure.connection, "properties": dict(procedure.properties)}
    spark |= {_FILE_FIELDS[option]: list(uris) for option, uris in procedure.uris.items()}
    optional = {"runtimeVersion": procedure.runtime_version, "mainFileUri": procedure.main_file_uri}
    spark |= {field: value for field, value in optional.items() if value is not None}
    resource: dict[str, Any] = {
        "routineReference": procedure.id.to_api(),
        "routineType": "PROCEDURE",
        "language": "PYTHON",
        "creationTime": str(procedure.created_us // 1000),
        "lastModifiedTime": str(procedure.modified_us // 1000),
        "arguments": [
            {"name": name, "mode": "IN", "dataType": _data_type(field_of_type(type_name))}
            for name, type_name in procedure.parameters
        ],
        "sparkOptions": spark,
    }
    texts = {"definitionBody": procedure.code, "description": procedure.description}
    resource |= {field: value for field, value in texts.items() if value is not None}
    return resource | {"etag": etag_of(resource)}


def _data_type(field: TableField) -> dict[str, Any]:
    """The type as the API's StandardSqlDataType."""
    kind: dict[str, Any] = {"typeKind": field.type}
    if field.type == "STRUCT":
        children = [{"name": child.name, "type": _data_type(child)} for child in field.fields]
        kind["structType"] = {"fields": children}
    return {"typeKind": "ARRAY", "arrayElementType": kind} if field.mode == "REPEATED" else kind
