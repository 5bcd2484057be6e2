"""Finds the materialized views that read a table.

BigQuery cannot list the views of a table, so the SQL of every materialized view is searched for the table's name.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.cloud.bigquery import Client
    from google.cloud.bigquery.table import TableListItem

# Seconds in which the first request is repeated if BigQuery does not answer. The watchdog, whose task ends after ten
# minutes, needs the remaining time for its other checks.
_FIRST_ANSWER_S = 60.0


def reads_table(query: str, project: str, dataset: str, table: str) -> bool:
    """Whether a view's query names the table. A name without a project means the view's own project."""
    name = rf"(?:{re.escape(project)}\.)?{re.escape(dataset)}\.{re.escape(table)}"
    unquoted_query = re.sub(r"\s*\.\s*", ".", query.replace("`", ""))
    return re.search(rf"(?<![\w.:-]){name}(?![\w-])", unquoted_query) is not None


def read_materialized_views(client: Client, project: str, location: str) -> dict[str, str]:
    """The SQL of each materialized view of the project in this location, by its name `dataset.view`.

    Views that this account may not read, or that were dropped meanwhile, are left out.
    """
    from google.api_core.exceptions import Forbidden, NotFound
    from google.cloud.bigquery.retry import DEFAULT_RETRY

    views = {}
    for item in client.list_datasets(project, retry=DEFAULT_RETRY.with_timeout(_FIRST_ANSWER_S)):
        # A DatasetListItem has no attribute for the location.
        if item._properties.get("location", location).lower() != location.lower():
            continue
        listed: list[TableListItem] = []
        with contextlib.suppress(Forbidden, NotFound):
            listed += client.list_tables(item.reference)
        for view in (table for table in listed if table.table_type == "MATERIALIZED_VIEW"):
            with contextlib.suppress(Forbidden, NotFound):
                views[f"{view.dataset_id}.{view.table_id}"] = client.get_table(view.reference).mview_query or ""
    return views
