"""Materialized views are found by the names in their queries, in the project and, on request, in its organization."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, create_autospec

import pytest
from google.api_core.exceptions import Forbidden, NotFound
from google.cloud.bigquery import DatasetReference, QueryJob, Row, Table, TableReference
from google.cloud.bigquery.dataset import DatasetListItem
from google.cloud.bigquery.table import TableListItem

from dedup_clone.warehouse.bigquery import Warehouse
from testkit.feed_on_stand_in import SQL


class Catalog:
    """The calls that the search makes, over views given as dataset -> (name, query); `locations` default to US."""

    def __init__(
        self,
        views: dict[str, list[tuple[str, str]]],
        locations: dict[str, str],
        closed: str = "",
        of_other_projects: dict[str, str | None] | None = None,
    ) -> None:
        self.views, self.locations, self.closed = views, locations, closed
        self.of_other_projects = of_other_projects or {}
        self.statements: list[tuple[str, dict[str, Any]]] = []

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

    def query(self, sql: str, **settings: Any) -> Any:
        self.statements.append((sql, settings))
        columns = {"project_id": 0, "table_schema": 1, "table_name": 2}
        job = create_autospec(QueryJob, instance=True)
        job.result.return_value = [Row(name.split("."), columns) for name in self.of_other_projects]
        return job

    def get_table(self, reference: Any) -> Table:
        if isinstance(reference, str):
            query = self.of_other_projects[reference]
            if query is None:
                raise NotFound(reference)  # type: ignore[no-untyped-call]
            table = TableReference.from_string(reference).to_api_repr()
            return Table.from_api_repr({"tableReference": table, "materializedView": {"query": query}})
        query = dict(self.views[reference.dataset_id])[reference.table_id]
        return Table.from_api_repr({"tableReference": reference.to_api_repr(), "materializedView": {"query": query}})


def found(catalog: Catalog, *, organization_views: bool = False) -> list[str]:
    client: Any = catalog
    warehouse = Warehouse(
        client,
        project="proj",
        dataset="warehouse",
        location="US",
        sql_folder=SQL,
        organization_views=organization_views,
    )
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
    """A view may be in any dataset of the organization (materialized-views-intro)."""
    views = {name: [("totals", "SELECT 1 FROM proj.warehouse.orders")] for name in ("marts", "warehouse", "eu_marts")}
    assert found(Catalog(views, {"eu_marts": "EU"})) == ["marts.totals", "warehouse.totals"]


def test_a_dataset_that_may_not_be_read_is_left_out() -> None:
    views = {name: [("totals", "SELECT 1 FROM warehouse.orders")] for name in ("secret", "warehouse")}
    assert found(Catalog(views, {}, closed="secret")) == ["warehouse.totals"]


def test_views_of_other_projects_count_if_the_profile_says_so() -> None:
    """A view is in the organization of its base tables (views-intro), and may name a table of its own project only."""
    others: dict[str, str | None] = {
        "other.marts.totals": "SELECT 1 FROM `proj.warehouse.orders`",
        "other.marts.own": "SELECT 1 FROM warehouse.orders",
        "other.marts.dropped": None,
    }
    catalog = Catalog({"warehouse": [("totals", "SELECT 1 FROM warehouse.orders")]}, {}, of_other_projects=others)
    assert found(catalog) == ["warehouse.totals"]
    assert catalog.statements == []
    assert found(catalog, organization_views=True) == ["warehouse.totals", "other.marts.totals"]
    [(sql, settings)] = catalog.statements
    assert "`proj`.`region-us`.INFORMATION_SCHEMA.TABLE_STORAGE_BY_ORGANIZATION" in sql
    assert (settings["project"], settings["location"]) == ("proj", "US")
    [parameter] = settings["job_config"].query_parameters
    assert (parameter.name, parameter.value) == ("project", "proj")


def test_an_organization_that_may_not_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a publish would go on as if there were no view."""
    catalog = Catalog({}, {})
    monkeypatch.setattr(catalog, "query", Mock(side_effect=Forbidden("no bigquery.tables.list")))  # type: ignore[no-untyped-call]
    with pytest.raises(Forbidden, match="no bigquery"):
        found(catalog, organization_views=True)
