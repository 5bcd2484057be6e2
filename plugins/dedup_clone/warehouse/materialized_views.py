"""Finds the materialized views that read a table.

BigQuery cannot list the views of a table, so the SQL of every materialized view is searched for the table's name.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

# The first request is repeated for so long when BigQuery does not answer: the watchdog, which ends after ten minutes,
# then goes on without BigQuery.
_FIRST_ANSWER_S = 60.0


def reads_table(sql: str, project: str, dataset: str, table: str) -> bool:
    """Whether a query that runs in `project` names the table, with or without the project."""
    name = rf"(?:{re.escape(project)}\.)?{re.escape(dataset)}\.{re.escape(table)}"
    plain = re.sub(r"\s*\.\s*", ".", sql.replace("`", ""))
    return re.search(rf"(?<![\w.:-]){name}(?![\w-])", plain) is not None


def read_materialized_views(client: Client, project: str, location: str) -> dict[str, str]:
    """The queries of the project's materialized views in this location, by `dataset.view`.

    Views in datasets that this account may not read are left out.
    """
    from google.api_core.exceptions import Forbidden, NotFound
    from google.cloud.bigquery.retry import DEFAULT_RETRY

    queries = {}
    for item in client.list_datasets(project, retry=DEFAULT_RETRY.with_timeout(_FIRST_ANSWER_S)):
        # A DatasetListItem has no attribute for the location.
        if item._properties.get("location", location).lower() != location.lower():
            continue
        with contextlib.suppress(Forbidden, NotFound):  # the dataset may not be read, or was dropped meanwhile
            for listed in client.list_tables(item.reference):
                if listed.table_type == "MATERIALIZED_VIEW":
                    query = client.get_table(listed.reference).mview_query
                    queries[f"{listed.dataset_id}.{listed.table_id}"] = query or ""
    return queries
