"""Finds the materialized views that read a table. BigQuery has no list of them."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.cloud.bigquery import Client


def reads_table(sql: str, project: str, dataset: str, table: str) -> bool:
    """Whether a query of this project names the table, with or without the project."""
    name = rf"(?:{re.escape(project)}\.)?{re.escape(dataset)}\.{re.escape(table)}"
    plain = re.sub(r"\s*\.\s*", ".", sql.replace("`", ""))
    return re.search(rf"(?<![\w.:-]){name}(?![\w-])", plain) is not None


def read_materialized_views(client: Client, project: str, location: str) -> dict[str, str]:
    """The queries of the project's materialized views in this location, by `dataset.view`.

    Views in datasets that this account may not read are left out.
    """
    from google.api_core.exceptions import Forbidden, NotFound

    queries = {}
    for item in client.list_datasets(project):
        if item._properties.get("location", location).lower() != location.lower():
            continue
        with contextlib.suppress(Forbidden, NotFound):  # the dataset may not be read, or was dropped meanwhile
            for listed in client.list_tables(item.reference):
                if listed.table_type == "MATERIALIZED_VIEW":
                    query = client.get_table(listed.reference).mview_query
                    queries[f"{listed.dataset_id}.{listed.table_id}"] = query or ""
    return queries
