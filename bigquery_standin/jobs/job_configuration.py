"""Parses the configurations of load and extract jobs.

Requests with unsupported fields do not get here: rest/google_api.py refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.jobs.object_store import MAXIMUM_URIS, split_uri
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.storage.model import TableId
from bigquery_standin.storage.partitions import split_decorator

CREATE_DISPOSITIONS = ("CREATE_IF_NEEDED", "CREATE_NEVER")
WRITE_DISPOSITIONS = ("WRITE_APPEND", "WRITE_EMPTY", "WRITE_TRUNCATE", "WRITE_TRUNCATE_DATA")
SOURCE_FORMATS = ("PARQUET", "NEWLINE_DELIMITED_JSON")
MANIFEST = "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST"
FILE_SET_SPECS = ("FILE_SET_SPEC_TYPE_FILE_SYSTEM_MATCH", MANIFEST)
# Source: "Export table data", export formats and compression types, of Parquet.
EXTRACT_COMPRESSIONS = ("NONE", "SNAPPY", "GZIP", "ZSTD")

# Values that clients send for fields which they do not set.
UNSET_VALUES: tuple[object, ...] = (None, False, "", [], {}, 0, "0")


@dataclass(frozen=True)
class SourceFiles:
    """The files that a load job or an external table reads.

    `is_manifest`: whether the URIs are of manifests, which list files. `list_inference`, `enum_as_string`: the
    `parquetOptions`.
    """

    uris: tuple[str, ...]
    is_manifest: bool
    list_inference: bool
    enum_as_string: bool


@dataclass(frozen=True)
class LoadConfiguration:
    """What a load job shall do. Optional fields are None if the job does not state them.

    `partition`: the partition that the table's name has as a decorator (`table$partition`), or None. `adds_fields`:
    whether the job may add columns to the table.
    """

    table: TableId
    partition: str | None
    sources: SourceFiles
    source_format: str
    schema: tuple[TableField, ...] | None
    create_disposition: str
    write_disposition: str
    adds_fields: bool


@dataclass(frozen=True)
class ExtractConfiguration:
    """What an extract job shall do. The URI may contain one `*`, which stands for the number of each file.

    `partition`: the one to extract; None for the whole table.
    """

    table: TableId
    partition: str | None
    uri: str
    compression: str


def table_id_from_api(reference: Mapping[str, Any]) -> TableId:
    """Raises Invalid if a part of the table's name is missing."""
    missing = [key for key in ("projectId", "datasetId", "tableId") if not reference.get(key)]
    if missing:
        raise Invalid(f"Required parameter is missing: [{', '.join(missing)}] of a table reference.")
    return TableId(reference["projectId"], reference["datasetId"], reference["tableId"])


def enum_value(name: str, value: str | None, allowed: tuple[str, ...], default: str) -> str:
    """The value, or the default if there is none. Raises Invalid for a value that is not allowed."""
    if value and value not in allowed:
        raise Invalid(f"Value of {name} is [{value}], expected one of [{', '.join(allowed)}].")
    return value or default


def parse_source_files(reader: str, configuration: Mapping[str, Any]) -> SourceFiles:
    """The files in the configuration of a load job or an external table. `reader`: what reads them, for errors."""
    uris = tuple(configuration.get("sourceUris") or ())
    if len(uris) > MAXIMUM_URIS:
        raise Invalid(f"Too many source URIs for {reader}: found [{len(uris)}], allowed [{MAXIMUM_URIS}].")
    spec = enum_value("fileSetSpecType", configuration.get("fileSetSpecType"), FILE_SET_SPECS, FILE_SET_SPECS[0])
    options = configuration.get("parquetOptions") or {}
    return SourceFiles(
        uris, spec == MANIFEST, bool(options.get("enableListInference")), bool(options.get("enumAsString"))
    )


def parse_load_configuration(configuration: Mapping[str, Any]) -> LoadConfiguration:
    """Raises Invalid for what BigQuery does not accept, NotImplementedConstruct for what is unsupported here."""
    table, partition = split_decorator(table_id_from_api(configuration.get("destinationTable") or {}))
    fields = (configuration.get("schema") or {}).get("fields")
    source_format = configuration.get("sourceFormat") or "CSV"
    if source_format not in SOURCE_FORMATS:
        raise NotImplementedConstruct(f"load.sourceFormat {source_format}")
    write_disposition = enum_value(
        "writeDisposition", configuration.get("writeDisposition"), WRITE_DISPOSITIONS, "WRITE_APPEND"
    )
    return LoadConfiguration(
        table=table,
        partition=partition,
        sources=parse_source_files(str(table), configuration),
        source_format=source_format,
        schema=tuple(TableField.from_api(field) for field in fields) if fields else None,
        create_disposition=enum_value("createDisposition", configuration.get("createDisposition"), CREATE_DISPOSITIONS,
                      "CREATE_IF_NEEDED"),
        write_disposition=write_disposition,
        adds_fields=_adds_fields(configuration, write_disposition, partition),
    )  # fmt: skip


def _adds_fields(configuration: Mapping[str, Any], write_disposition: str, partition: str | None) -> bool:
    """Whether the job may add columns to the table.

    Source: REST reference of jobs, JobConfigurationLoad.schemaUpdateOptions.
    """
    options = configuration.get("schemaUpdateOptions") or []
    for option in options:
        if option != "ALLOW_FIELD_ADDITION":
            raise NotImplementedConstruct(f"load.schemaUpdateOptions {option}")
    supported = ["WRITE_APPEND", "WRITE_TRUNCATE_DATA", *(["WRITE_TRUNCATE"] if partition is not None else [])]
    if options and write_disposition not in supported:
        raise Invalid("Schema update options should only be specified with WRITE_APPEND disposition.")
    return bool(options)


def parse_extract_configuration(configuration: Mapping[str, Any]) -> ExtractConfiguration:
    """Raises Invalid for what BigQuery does not accept, NotImplementedConstruct for what is unsupported here."""
    table, partition = split_decorator(table_id_from_api(configuration.get("sourceTable") or {}))
    uris = list(configuration.get("destinationUris") or ())
    if len(uris) != 1:
        raise NotImplementedConstruct(f"extract.destinationUris with [{len(uris)}] URIs")
    if configuration.get("destinationFormat") != "PARQUET":
        raise NotImplementedConstruct(f"extract.destinationFormat {configuration.get('destinationFormat') or 'CSV'}")
    compression = configuration.get("compression") or "NONE"
    if compression not in EXTRACT_COMPRESSIONS:
        raise Invalid(
            f"Value of extract.compression is [{compression}], expected one of [{', '.join(EXTRACT_COMPRESSIONS)}]."
        )
    bucket, name = split_uri(uris[0])
    if "*" in bucket or name.count("*") > 1:
        raise Invalid(f"Destination URI [{uris[0]}] may have one wildcard [*], in the object's name.")
    return ExtractConfiguration(table, partition, uris[0], compression)
