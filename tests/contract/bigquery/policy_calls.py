"""Makes and lists row access policies and policy tags. The client library has no methods for row access policies."""

from __future__ import annotations

from typing import Any

from google.cloud import bigquery

from tests.shared.stand_in_client import PROJECT, TODAY, load_rows, make_table

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
OTHER_TAG = "projects/p/locations/us/taxonomies/1/policyTags/3"


def make_unprotected(client: bigquery.Client, dataset: str) -> str:
    """Make a table with two rows of today and without policies, and return its name with its dataset."""
    make_table(client, f"{dataset}.t")
    load_rows(client, f"{dataset}.t", [(TODAY, 1, 1), (TODAY, 2, 1)])
    return f"{dataset}.t"


def call(client: bigquery.Client, method: str, table: str, path: str = "", **options: Any) -> Any:
    """Call the REST API for the row access policies of a table. `path`: what follows `rowAccessPolicies` in the URL."""
    dataset, name = table.split(".")
    address = f"/projects/{PROJECT}/datasets/{dataset}/tables/{name}/rowAccessPolicies{path}"
    return client._connection.api_request(method=method, path=address, **options)


def insert(client: bigquery.Client, table: str, name: str, predicate: str = "id = 1", **more: Any) -> Any:
    """Make a row access policy. `more`: further fields of the request's body."""
    body = {"rowAccessPolicyReference": {"policyId": name}, "filterPredicate": predicate, **more}
    return call(client, "POST", table, data=body)


def policies(client: bigquery.Client, table: str) -> list[str]:
    """The names of the table's row access policies."""
    listed = call(client, "GET", table).get("rowAccessPolicies", [])
    return [policy["rowAccessPolicyReference"]["policyId"] for policy in listed]


def tag(client: bigquery.Client, table: str, column: str = "number", name: str = TAG) -> None:
    """Give a column the policy tag `name`."""
    found = client.get_table(f"{PROJECT}.{table}")
    found.schema = [
        bigquery.SchemaField(c.name, c.field_type, policy_tags=bigquery.PolicyTagList([name]))
        if c.name == column
        else c
        for c in found.schema
    ]
    client.update_table(found, ["schema"])


def tags(client: bigquery.Client, table: str) -> dict[str, str]:
    """The policy tag of each column that has one."""
    schema = client.get_table(f"{PROJECT}.{table}").schema
    return {c.name: c.policy_tags.names[0] for c in schema if c.policy_tags and c.policy_tags.names}


def ddl(client: bigquery.Client, sql: str) -> dict[str, Any]:
    """Run a statement, and return its query statistics."""
    job = client.query(sql)
    job.result()
    statistics: dict[str, Any] = job._properties["statistics"]["query"]
    return statistics
