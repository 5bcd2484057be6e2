"""A load job's configuration, read once into one value. Fields the stand-in does not know were refused before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from devstack.bigquery.errors import Invalid, NotImplementedConstruct
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.decorators import split_decorator
from devstack.bigquery.storage.model import TableId

CREATE_DISPOSITIONS = ("CREATE_IF_NEEDED", "CREATE_NEVER")
LOAD_WRITE_DISPOSITIONS = ("WRITE_APPEND", "WRITE_EMPTY", "WRITE_TRUNCATE", "WRITE_TRUNCATE_DATA")
SOURCE_FORMATS = ("PARQUET", "NEWLINE_DELIMITED_JSON")
MANIFEST = "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST"
FILE_SET_SPECS = ("FILE_SET_SPEC_TYPE_FILE_SYSTEM_MATCH", MANIFEST)
MAXIMUM_URIS = 10_000


@dataclass(frozen=True)
class LayoutRequest:
    """Partitioning and clustering as a request gives them; None where it says nothing."""

    partition_column: str | None = None
    partition_expiration_ms: int | None = None
    clustering: tuple[str, ...] | None = None


@dataclass(frozen=True)
class LoadRequest:
    table: TableId
    partition: str | None
    uris: tuple[str, ...]
    is_manifest: bool
    source_format: str
    schema: tuple[TableField, ...] | None
    create: str
    write: str
    layout: LayoutRequest
    description: str | None
    friendly_name: str | None
    labels: Mapping[str, str] | None
    list_inference: bool


def table_id_from_api(reference: Mapping[str, Any]) -> TableId:
    missing = [key for key in ("projectId", "datasetId", "tableId") if not reference.get(key)]
    if missing:
        raise Invalid(f"Required parameter is missing: [{', '.join(missing)}] of a table reference.")
    return TableId(reference["projectId"], reference["datasetId"], reference["tableId"])


def choose(name: str, value: str | None, allowed: tuple[str, ...], default: str) -> str:
    if value and value not in allowed:
        raise Invalid(f"Value of {name} is [{value}], expected one of [{', '.join(allowed)}].")
    return value or default


def layout_from_api(owner: Mapping[str, Any]) -> LayoutRequest:
    """From `timePartitioning` and `clustering` of a table or a job's configuration."""
    partitioning, clustering = owner.get("timePartitioning") or {}, owner.get("clustering") or {}
    if partitioning and partitioning.get("type") != "DAY":
        raise NotImplementedConstruct(f"timePartitioning.type {partitioning.get('type')}")
    if partitioning and not partitioning.get("field"):
        raise NotImplementedConstruct("timePartitioning without field (partitioning by ingestion time)")
    expiration = partitioning.get("expirationMs")
    return LayoutRequest(
        partition_column=partitioning.get("field"),
        partition_expiration_ms=int(expiration) if expiration and int(expiration) > 0 else None,
        clustering=tuple(clustering["fields"]) if clustering.get("fields") else None,
    )


def parse_load(configuration: Mapping[str, Any]) -> LoadRequest:
    table, partition = split_decorator(table_id_from_api(configuration.get("destinationTable") or {}))
    fields = (configuration.get("schema") or {}).get("fields")
    properties = configuration.get("destinationTableProperties") or {}
    uris = tuple(configuration.get("sourceUris") or ())
    if len(uris) > MAXIMUM_URIS:
        raise Invalid(f"Too many source URIs for {table}: found [{len(uris)}], allowed [{MAXIMUM_URIS}].")
    source_format = configuration.get("sourceFormat") or "CSV"
    if source_format not in SOURCE_FORMATS:
        raise NotImplementedConstruct(f"load.sourceFormat {source_format}")
    spec = choose("fileSetSpecType", configuration.get("fileSetSpecType"), FILE_SET_SPECS, FILE_SET_SPECS[0])
    return LoadRequest(
        table=table,
        partition=partition,
        uris=uris,
        is_manifest=spec == MANIFEST,
        source_format=source_format,
        schema=tuple(TableField.from_api(field) for field in fields) if fields else None,
        create=choose("createDisposition", configuration.get("createDisposition"), CREATE_DISPOSITIONS,
                      "CREATE_IF_NEEDED"),
        write=choose("writeDisposition", configuration.get("writeDisposition"), LOAD_WRITE_DISPOSITIONS,
                     "WRITE_APPEND"),
        layout=layout_from_api(configuration),
        description=properties.get("description"),
        friendly_name=properties.get("friendlyName"),
        labels=properties.get("labels"),
        list_inference=bool((configuration.get("parquetOptions") or {}).get("enableListInference")),
    )  # fmt: skip
