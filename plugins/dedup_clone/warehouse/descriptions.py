"""Sets the descriptions of a table and its columns, which BigQuery shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

# Seconds in which a refused change is repeated. BigQuery limits how often a table changes in ten seconds. If other
# changes of the table use up this limit, the caller must try again later.
REPEATED_FOR_S = 12.0


def describe_table(client: Client, table_id: str, description: str, columns: Mapping[str, str]) -> bool:
    """Set the descriptions of the table and of its `columns`, by name; a nested one is named `column.field`.

    Other columns keep theirs.

    Changes nothing, and returns False, if the table has them already. A refused change is repeated for REPEATED_FOR_S.
    """
    from google.cloud.bigquery import DEFAULT_RETRY, SchemaField

    table = client.get_table(table_id)
    fields = [field.to_api_repr() for field in table.schema]
    described = [_described(field, columns) for field in fields]
    if table.description == description and described == fields:
        return False
    table.description = description
    table.schema = [SchemaField.from_api_repr(field) for field in described]
    # Refused if the table changed since it was read.
    client.update_table(table, ["description", "schema"], retry=DEFAULT_RETRY.with_timeout(REPEATED_FOR_S))
    return True


def _described(field: dict[str, Any], columns: Mapping[str, str], parent: str = "") -> dict[str, Any]:
    """A field of a schema, as the REST API writes it, with its description and those of its fields."""
    name = f"{parent}{field['name']}"
    described = {**field, "description": columns[name]} if name in columns else dict(field)
    if "fields" in field:
        described["fields"] = [_described(inner, columns, f"{name}.") for inner in field["fields"]]
    return described
