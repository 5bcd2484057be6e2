"""An extract job's configuration, read once into one value. Fields the stand-in does not know were refused before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from devstack.bigquery.errors import Invalid, NotImplementedConstruct
from devstack.bigquery.jobs.load_request import table_id_from_api
from devstack.bigquery.jobs.source_files import split_uri
from devstack.bigquery.storage.decorators import split_decorator
from devstack.bigquery.storage.model import TableId

EXTRACT_FORMATS = ("PARQUET",)
# Source: "Export table data", export formats and compression types, of Parquet.
EXTRACT_COMPRESSIONS = ("NONE", "SNAPPY", "GZIP", "ZSTD")


@dataclass(frozen=True)
class ExtractRequest:
    """`uri` has at most one `*`, which stands for the number of a file."""

    table: TableId
    partition: str | None
    uri: str
    compression: str


def parse_extract(configuration: Mapping[str, Any]) -> ExtractRequest:
    """Raises Invalid for what BigQuery refuses, NotImplementedConstruct for what only the stand-in does."""
    table, partition = split_decorator(table_id_from_api(configuration.get("sourceTable") or {}))
    uris = list(configuration.get("destinationUris") or ()) or [configuration.get("destinationUri") or ""]
    if not uris[0]:
        raise Invalid("Required parameter is missing: extract.destinationUris needs a gs:// URI.")
    if len(uris) > 1:
        raise NotImplementedConstruct(f"extract.destinationUris with [{len(uris)}] URIs")
    file_format = configuration.get("destinationFormat") or "CSV"
    if file_format not in EXTRACT_FORMATS:
        raise NotImplementedConstruct(f"extract.destinationFormat {file_format}")
    compression = configuration.get("compression") or "NONE"
    if compression not in EXTRACT_COMPRESSIONS:
        raise Invalid(
            f"Value of extract.compression is [{compression}], expected one of [{', '.join(EXTRACT_COMPRESSIONS)}] "
            f"for {file_format}."
        )
    bucket, name = split_uri(uris[0])
    if "*" in bucket or name.count("*") > 1:
        raise Invalid(f"Destination URI [{uris[0]}] may have one wildcard [*], in the object's name.")
    return ExtractRequest(table, partition, uris[0], compression)
