"""DDL as changes of the catalog: create, clone, alter and drop tables, create and drop datasets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from devstack.bigquery.clock import from_datetime
from devstack.bigquery.errors import Duplicate, Invalid, InvalidQuery, NotFound
from devstack.bigquery.sql.options import TableOptions, evaluate_options, evaluate_schema_options
from devstack.bigquery.sql.statements import ColumnSpec, CreateSchema, CreateTable
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.arrow_schema import conform
from devstack.bigquery.storage.catalog import Catalog, Change
from devstack.bigquery.storage.model import (
    CloneDefinition,
    Dataset,
    DatasetId,
    Partition,
    TableId,
    TableSettings,
    TableVersion,
)
from devstack.bigquery.storage.rules import check_clone, check_replacement, check_settings

DAY_MS = 86_400_000
Evaluate = Callable[[exp.Expression], Any]
_OPTION_SETTINGS = {
    "description": "description",
    "friendly_name": "friendly_name",
    "require_partition_filter": "require_partition_filter",
}


def conformed(rows: pa.Table, schema: tuple[TableField, ...]) -> pa.Table:
    """Rows of a query for a table: a NULL in a REQUIRED column is the query's fault."""
    try:
        return conform(rows, schema)
    except Invalid as error:
        raise InvalidQuery(error.message) from error


def columns_of(specs: tuple[ColumnSpec, ...]) -> tuple[TableField, ...]:
    return tuple(
        TableField(spec.name, spec.type_name, spec.mode, columns_of(spec.fields), spec.description) for spec in specs
    )


def with_options(settings: TableSettings, options: TableOptions) -> TableSettings:
    """Only named options change; one named with NULL is removed."""
    changes: dict[str, Any] = {}
    for name in options.named:
        value = getattr(options, name)
        if name == "labels":
            changes["labels"] = dict(value or ())
        elif name == "partition_expiration_days":
            changes["partition_expiration_ms"] = None if value is None else round(value * DAY_MS)
        elif name == "expiration_timestamp":
            changes["expires_us"] = None if value is None else from_datetime(value)
        elif name == "require_partition_filter":
            changes[name] = bool(value)
        else:
            changes[_OPTION_SETTINGS[name]] = value
    return replace(settings, **changes)


def create_settings(
    table: TableId, statement: CreateTable, result: tuple[TableField, ...], evaluate: Evaluate
) -> TableSettings:
    """Of CREATE TABLE; `result` are the columns of its query, which declared columns win over."""
    schema = columns_of(statement.columns) if statement.columns else result
    settings = TableSettings(
        schema=schema,
        partition_column=statement.partition_by.column if statement.partition_by else None,
        clustering=statement.cluster_by,
    )
    settings = with_options(settings, evaluate_options(statement.options, evaluate))
    settings = replace(
        settings,
        partition_column=_spelt(settings, settings.partition_column),
        clustering=tuple(_spelt(settings, name) or name for name in settings.clustering),
    )
    check_settings(table, settings)
    return settings


def _spelt(settings: TableSettings, name: str | None) -> str | None:
    """The column's own spelling: names do not differ by case."""
    found = settings.column(name) if name is not None else None
    return found.name if found else name


def operation(current: TableVersion | None, replace_allowed: bool, if_not_exists: bool, table: TableId) -> str:
    """CREATE, REPLACE or SKIP."""
    if current is None:
        return "CREATE"
    if replace_allowed:
        return "REPLACE"
    if if_not_exists:
        return "SKIP"
    raise Duplicate(f"Already Exists: Table {table}")


def created(
    table: TableId, current: TableVersion | None, settings: TableSettings, partitions: dict[str, Partition]
) -> Change:
    if current is not None:
        check_replacement(table, current.settings, settings)
    return Change("create", settings, partitions, recreates=True, modified_partitions=len(partitions))


def cloned(
    catalog: Catalog,
    table: TableId,
    current: TableVersion | None,
    source: TableId,
    source_version: TableVersion,
    options: TableOptions,
    clone_us: int,
    commit_us: int,
) -> Change:
    """Schema with policy tags, row access policies (F5), layout and rows of the source's version. Options are not
    taken over, the partition expiration included: whether BigQuery takes it over is undocumented, so only what OPTIONS
    says can be relied on (F7).
    """
    base = source_version.settings
    settings = TableSettings(
        base.schema, base.partition_column, clustering=base.clustering, row_policies=base.row_policies
    )
    settings = with_options(settings, options)
    check_settings(table, settings)
    check_clone(catalog, table, source, source_version.clone)
    if current is not None:
        check_replacement(table, current.settings, settings)
    partitions = {key: replace(part, modified_us=commit_us) for key, part in source_version.partitions.items()}
    return Change(
        kind="clone",
        settings=settings,
        partitions=partitions,
        clone=CloneDefinition(source, clone_us),
        recreates=True,
        modified_partitions=len(partitions),
    )


def altered(table: TableId, current: TableVersion | None, options: TableOptions) -> Change:
    if current is None:
        raise NotFound(f"Not found: Table {table}")
    settings = with_options(current.settings, options)
    check_settings(table, settings)
    return Change("options", settings, current.partitions, current.clone)


def schema_id(name: str, project: str) -> DatasetId:
    head, dot, dataset = name.rpartition(".")
    return DatasetId(head if dot else project, dataset)


def create_schema(catalog: Catalog, statement: CreateSchema, project: str, location: str, evaluate: Evaluate) -> str:
    """Returns CREATE or SKIP."""
    dataset_id = schema_id(statement.name, project)
    options = evaluate_schema_options(statement.options, evaluate)
    if options.location is not None and options.location.lower() != location.lower():
        raise InvalidQuery(
            f"CREATE SCHEMA {dataset_id} has location [{options.location}], but the job runs in [{location}]: "
            "run the job there"
        )
    if statement.if_not_exists and catalog.datasets.find(dataset_id) is not None:
        return "SKIP"
    catalog.datasets.create(
        Dataset(
            dataset_id,
            location,
            0,
            0,
            labels=dict(options.labels or ()),
            description=options.description,
            friendly_name=options.friendly_name,
        )
    )
    return "CREATE"
