"""Materialized views are found by the names in their queries, in all datasets of the project."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import Forbidden
from google.cloud.bigquery import DatasetReference, Table, TableReference
from google.cloud.bigquery.dataset import DatasetListItem
from google.cloud.bigquery.table import TableListItem

from dedup_clone.warehouse.bigquery import Warehouse
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
