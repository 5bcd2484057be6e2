"""What BigQuery tells of tables: materialized views that read them, and what a table has beside rows and layout."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from google.api_core.exceptions import Forbidden, NotFound
from google.cloud.bigquery import DatasetReference, Table, TableReference
from google.cloud.bigquery.dataset import DatasetListItem
from google.cloud.bigquery.table import TableListItem

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.table_checks import check_undeclared_options
from dedup_clone.warehouse.bigquery import Warehouse
from dedup_clone.warehouse.metadata import table_metadata
from dedup_clone.warehouse.table_options import table_options, with_values
from testkit.feed_on_stand_in import SQL


class Catalog:
    """The calls that the search makes, over views given as dataset -> (name, query); `locations` default to US."""

    def __init__(self, views: dict[str, list[tuple[str, str]]], locations: dict[str, str], closed: str = "") -> None:
        self.views, self.locations, self.closed = views, locations, closed

    def list_datasets(self, project: str, retry: object) -> list[DatasetListItem]:
        names = {name: {"projectId": project, "datasetId": name} for name in self.views}
        return [
            DatasetListItem({"datasetReference": reference, "location": self.locations.get(name, "US")})
            for name, reference in names.items()
        ]

    def list_tables(self, dataset: DatasetReference | str) -> list[TableListItem]:
        name = dataset.dataset_id if isinstance(dataset, DatasetReference) else dataset.split(".")[1]
        if name == self.closed:
            raise Forbidden("no bigquery.tables.list")  # type: ignore[no-untyped-call]
        types = {"t": "TABLE", **{view: "MATERIALIZED_VIEW" for view, _ in self.views[name]}}
        reference = DatasetReference("proj", name)
        return [
            TableListItem({"tableReference": reference.table(table).to_api_repr(), "type": kind})
            for table, kind in types.items()
        ]

    def get_table(self, reference: TableReference) -> Table:
        if reference.table_id == "dropped":
            raise NotFound("it was dropped meanwhile")  # type: ignore[no-untyped-call]
        query = dict(self.views[reference.dataset_id])[reference.table_id]
        return Table.from_api_repr({"tableReference": reference.to_api_repr(), "materializedView": {"query": query}})


def found(catalog: Catalog) -> list[str]:
    client: Any = catalog
    warehouse = Warehouse(client, project="proj", dataset="warehouse", location="US", sql_folder=SQL)
    return warehouse.materialized_views_of("orders")


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("warehouse.orders", True),
        ("`warehouse.orders`", True),
        ("`proj`.`warehouse`.`orders`", True),
        ("proj . warehouse . orders", True),
        ("`proj.warehouse.orders` AS o", True),
        ("warehouse.orders, UNNEST(orders.items)", True),
        ("warehouse.orders_history", False),
        ("`warehouse.orders-history`", False),
        ("old_warehouse.orders", False),
        ("`other-proj.warehouse.orders`", False),
        ("`example.com:proj.warehouse.orders`", False),
        ("warehouse.all_orders", False),
    ],
)
def test_names_are_matched_whole(name: str, reads: bool) -> None:
    """`orders_history` is not `orders`. A name without a project is of the view's own project."""
    views = {"warehouse": [("totals", f"SELECT day, COUNT(*) AS n FROM {name}\nGROUP BY day")]}
    assert found(Catalog(views, {})) == (["warehouse.totals"] if reads else [])


def test_views_in_other_datasets_of_the_location_count() -> None:
    """A view may be in any dataset (materialized-views-intro)."""
    views = {name: [("totals", "SELECT 1 FROM proj.warehouse.orders")] for name in ("marts", "warehouse", "eu_marts")}
    assert found(Catalog(views, {"eu_marts": "EU"})) == ["marts.totals", "warehouse.totals"]


def test_a_dataset_that_may_not_be_read_is_left_out() -> None:
    views = {name: [("totals", "SELECT 1 FROM warehouse.orders")] for name in ("secret", "warehouse")}
    assert found(Catalog(views, {}, closed="secret")) == ["warehouse.totals"]


def test_the_views_beside_one_that_was_dropped_meanwhile_count() -> None:
    views = {"warehouse": [(name, "SELECT 1 FROM warehouse.orders") for name in ("dropped", "totals")]}
    assert found(Catalog(views, {})) == ["warehouse.totals"]


KEY = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
RESOURCE = {
    "labels": {"dedup_clone_generation": "7", "team": "stores"},
    "resourceTags": {"p/env": "prod"},
    "encryptionConfiguration": {"kmsKeyName": KEY},
    "timePartitioning": {"type": "DAY", "field": "day", "requirePartitionFilter": True},
    "tableConstraints": {
        "primaryKey": {"columns": ["day", "id"]},
        "foreignKeys": [
            {
                "name": "to_stores",
                "referencedTable": {"projectId": "p", "datasetId": "d", "tableId": "stores"},
                "columnReferences": [{"referencingColumn": "store", "referencedColumn": "id"}],
            }
        ],
    },
    "schema": {
        "fields": [
            {"name": "day", "type": "DATE"},
            {"name": "id", "type": "INTEGER", "defaultValueExpression": "0", "policyTags": {"names": [TAG]}},
            {
                "name": "at",
                "type": "RECORD",
                "fields": [
                    {"name": "city", "type": "STRING", "maxLength": "40", "description": "Town"},
                    {
                        "name": "share",
                        "type": "NUMERIC",
                        "precision": "5",
                        "scale": "2",
                        "roundingMode": "HALF_EVEN",
                    },
                ],
            },
        ]
    },
}
ENTRIES = {
    "label [team]": "stores",
    "resource tag [p/env]": "prod",
    "KMS key": KEY,
    "require_partition_filter": "true",
    "primary key": "day, id",
    "foreign key [to_stores]": "store = stores.id",
    "default value of column [id]": "0",
    "policy tag of column [id]": TAG,
    "description of column [at.city]": "Town",
    "type parameters of column [at.city]": "40",
    "type parameters of column [at.share]": "5, 2",
    "rounding mode of column [at.share]": "HALF_EVEN",
}


def test_everything_that_a_swap_could_remove_is_an_entry() -> None:
    assert table_options(RESOURCE) == ENTRIES


def test_tags_of_nested_columns_are_policies_too() -> None:
    """They hide values from the audit, and from readers of target what `FEED_changes` would show."""
    tagged = {"name": "city", "type": "STRING", "policyTags": {"names": [TAG]}}
    fields = [{"name": "store", "type": "RECORD", "fields": [tagged]}, {"name": "id", "type": "INTEGER"}]
    reference = {"projectId": "proj", "datasetId": "warehouse", "tableId": "orders"}
    table = Table.from_api_repr({"tableReference": reference, "schema": {"fields": fields}})
    connection = SimpleNamespace(api_request=lambda **request: {})
    client: Any = SimpleNamespace(get_table=lambda name: table, _connection=connection)
    warehouse = Warehouse(client, project="proj", dataset="warehouse", location="US", sql_folder=SQL)
    assert warehouse.policies("orders").column_tags == {"store.city": TAG}


def test_descriptions_are_set_by_path_and_others_stay() -> None:
    fields = with_values(RESOURCE["schema"]["fields"], "description", {"id": "Number"})  # type: ignore[index,arg-type]
    assert [field.get("description") for field in fields] == [None, "Number", None]
    assert fields[2]["fields"][0]["description"] == "Town"


def test_what_staging_has_too_is_carried_by_the_clone_except_options_that_clones_lack() -> None:
    found = check_undeclared_options(target=ENTRIES, staging=ENTRIES, declared={}, last_set={})
    assert found.level is Level.FAIL
    for lost in ("label [team]", "require_partition_filter", "resource tag [p/env]"):
        assert lost in found.found
    assert "foreign key" not in found.found


@pytest.mark.parametrize("option", ["default value of column [id]", "type parameters of column [code]", "resource tag"])
def test_what_nobody_can_declare_must_be_on_staging_too(option: str) -> None:
    lost = {option: "10"}
    found = check_undeclared_options(target=lost, staging={}, declared={}, last_set={})
    assert (found.level, found.found) == (Level.FAIL, f"{option}: 10")
    is_cloned = not option.startswith("resource tag")  # clones have none
    kept = check_undeclared_options(target=lost, staging=lost, declared={}, last_set={})
    assert (kept.level is Level.PASS) is is_cloned


def test_another_policy_tag_than_that_of_staging_is_lost() -> None:
    tag = {"policy tag of column [id]": TAG}
    other = {"policy tag of column [id]": "other"}
    assert check_undeclared_options(target=tag, staging=other, declared={}, last_set={}).level is Level.FAIL
    assert check_undeclared_options(target=tag, staging=tag, declared={}, last_set={}).level is Level.PASS


@pytest.mark.parametrize(
    ("fraction", "microsecond"), [("", 0), (".120", 120_000), (".123456", 123_456), (".123456789", 123_456)]
)
def test_a_clones_time_is_read_with_each_number_of_digits_that_googles_json_has(
    fraction: str, microsecond: int
) -> None:
    base = {"projectId": "p", "datasetId": "d", "tableId": "staging"}
    table = Table.from_api_repr(
        {
            "tableReference": {**base, "tableId": "target"},
            "creationTime": "1767225600000",
            "cloneDefinition": {"baseTableReference": base, "cloneTime": f"2026-01-01T00:00:07{fraction}Z"},
        }
    )
    found = table_metadata(table)
    assert (found.clone_of, found.clone_time) == ("staging", datetime(2026, 1, 1, 0, 0, 7, microsecond, tzinfo=UTC))
