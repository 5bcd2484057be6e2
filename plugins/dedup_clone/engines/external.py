"""Landed files as a query's temporary external table."""

from __future__ import annotations

from typing import Any

DELIVERY = "delivery"  # the table's name in sql/engines
PARQUET_OPTIONS = {"enableListInference": True}
FILE_LIST = "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST"


def external_files(uris: list[str]) -> dict[str, Any]:
    """Table definitions over these files; BigQuery takes the columns from the last one."""
    return {DELIVERY: {"sourceFormat": "PARQUET", "sourceUris": uris, "parquetOptions": PARQUET_OPTIONS}}


def external_list(uris_uri: str) -> dict[str, Any]:
    """Table definitions over the files that a list names, one URI a line."""
    (definition,) = external_files([uris_uri]).values()
    return {DELIVERY: {**definition, "fileSetSpecType": FILE_LIST}}
