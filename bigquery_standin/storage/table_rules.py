"""Judges the settings of tables, and whether a table may be replaced or cloned, with BigQuery's messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.sql.field_types import CLUSTERING_TYPES, MAXIMUM_CLUSTERING_COLUMNS, TableField
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import CloneDefinition, TableId, TableSettings
from bigquery_standin.storage.partitions import ID_LENGTHS

MAXIMUM_CLONE_DEPTH = 3  # a clone of a clone of a clone of a base table
# Source: BigQuery's page "Specifying a schema", column names.
RESERVED_PREFIXES = (
    *("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier"),
    *("_change_sequence_number", "_change_type", "_change_timestamp"),
)
MAXIMUM_NAME_LENGTH = 300  # characters of a column name
MAXIMUM_KEY_COLUMNS = 16
MAXIMUM_LABELS = 64
_LABEL_KEY = re.compile(r"[a-z\u00df-\uffff][\w\-]{0,62}")
_LABEL_VALUE = re.compile(r"[\w\-]{0,63}")
KEY_TYPES = frozenset(["BIGNUMERIC", "BOOL", "BYTES", "DATE", "DATETIME", "INT64", "NUMERIC", "STRING", "TIMESTAMP"])


def describe_partitioning(settings: TableSettings) -> str:
    unit = settings.partition_unit.lower()
    return f"interval(type:{unit},field:{settings.partition_column})" if settings.partition_column else "none"


def reserved_name_message(name: str) -> str:
    return (
        f'Invalid field name "{name}". Field names are not allowed to start with the (case-insensitive) prefixes '
        f"{', '.join(prefix.upper() for prefix in RESERVED_PREFIXES)}"
    )


def check_is_partitioned(table: TableId, settings: TableSettings, partition: str | None) -> None:
    """Raises Invalid if a request names a partition of an unpartitioned table."""
    if partition is not None and settings.partition_column is None:
        raise Invalid(f"Table {table} is not partitioned: leave [${partition}] out.")
    if partition and partition.isdigit() and len(partition) != ID_LENGTHS[settings.partition_unit]:
        raise Invalid(
            f"Table {table} is partitioned by {describe_partitioning(settings)}: [${partition}] is no partition."
        )


def describe_clustering(settings: TableSettings) -> str:
    return f"clustering({', '.join(settings.clustering)})" if settings.clustering else "none"


def changed_settings(
    table: TableId, before: TableSettings | None, changes: Mapping[str, Any], *, widens: bool = False
) -> TableSettings:
    """The settings of a table after a request or a DDL statement. `before`: None for a new table.

    `changes`: the new values, by the names that they have in TableSettings. `widens`: whether the type of a column may
    become a wider one. Raises Invalid for what BigQuery refuses, NotImplementedConstruct for what is not supported.
    """
    settings = replace(before or TableSettings(()), **changes).in_schema_spelling()
    if before is not None:
        if (settings.partition_column, settings.partition_unit) != (before.partition_column, before.partition_unit):
            raise Invalid(
                f"Cannot change partitioning of table {table}: it is {describe_partitioning(before)}, the request "
                f"says [{settings.partition_column}]. Create another table."
            )
        _check_columns(table, before.schema, settings.schema, widens=widens)
        types = [[column.sql_type() for column in columns] for columns in (before.schema, settings.schema)]
        settings = replace(settings, has_altered_types=before.has_altered_types or (widens and types[0] != types[1]))
    check_settings(table, settings)
    return settings


def _check_columns(table: TableId, before: Sequence[TableField], after: Sequence[TableField], *, widens: bool) -> None:
    """Raises an error unless a table with columns `before` may get the columns `after`. Without columns, it may."""
    if not before:
        return
    pairs = zip(before, after, strict=False)
    unfit = next((pair for pair in pairs if not may_become(*pair, widens=widens)), None)
    if unfit is not None and widens:
        old_type, new_type = (column.sql_type() for column in unfit)
        raise Invalid(
            f"ALTER TABLE ALTER COLUMN SET DATA TYPE requires that the existing column type ({old_type}) is "
            f"assignable to the new type ({new_type})"
        )
    if unfit is not None or len(after) < len(before):
        raise NotImplementedConstruct(
            f"change of columns of existing table {table} (descriptions and policy tags may change, columns be added, "
            f"and REQUIRED become NULLABLE)"
        )
    required = [column.name for column in after[len(before) :] if column.mode == "REQUIRED"]
    if required:
        raise Invalid(
            f"Provided Schema does not match Table {table}. Cannot add required fields to an existing schema. "
            f"(field: {required[0]})"
        )


def check_settings(table: TableId, settings: TableSettings) -> None:
    """Raises Invalid if BigQuery would refuse the column names, partitioning, clustering, primary key or labels.

    It raises NotImplementedConstruct for a partitioning column that has no date.
    """
    _check_names_differ(table, settings.schema)
    names = [column.name.lower() for column in settings.schema]
    for name in names:
        if name.startswith(RESERVED_PREFIXES):
            raise Invalid(f"{reserved_name_message(name)}: rename the column of {table}.")
        if len(name) > MAXIMUM_NAME_LENGTH:
            raise Invalid(
                f'Invalid field name "{name}" of {table}: it has more than [{MAXIMUM_NAME_LENGTH}] characters.'
            )
    if settings.partition_column is not None:
        column = settings.column(settings.partition_column)
        if column is None:
            raise Invalid(
                f"The field specified for partitioning cannot be found in the schema of {table}: "
                f"[{settings.partition_column}], the columns are [{', '.join(names)}]."
            )
        if column.type not in ("DATE", "DATETIME", "TIMESTAMP") or column.mode == "REPEATED":
            raise NotImplementedConstruct(f"partitioning by column {column.name} of type {column.sql_type()}")
        if column.type == "DATE" and settings.partition_unit == "HOUR":
            raise Invalid(f"The field specified for partitioning of {table} by hour is a DATE: [{column.name}].")
    elif settings.partition_expiration_ms is not None or settings.require_partition_filter:
        raise Invalid(f"Partition options of {table} need a partitioned table: add PARTITION BY or leave them out.")
    _check_clustering(table, settings)
    _check_primary_key(table, settings)
    check_labels(settings.labels)


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises Invalid for labels that BigQuery refuses. Source: "Creating and updating labels", requirements."""
    for key, text in labels.items():
        if not _LABEL_KEY.fullmatch(key) or key != key.lower():
            raise Invalid(
                f"Label key [{key}] is not valid, expected [a lower-case letter, then up to 62 lower-case letters, "
                "digits, _ and -]"
            )
        if not _LABEL_VALUE.fullmatch(text) or text != text.lower():
            raise Invalid(f"Label value [{text}] is not valid, expected [up to 63 lower-case letters, digits, _ and -]")
    if len(labels) > MAXIMUM_LABELS:
        raise Invalid(f"[{len(labels)}] labels given, expected at most [{MAXIMUM_LABELS}]")


def _check_names_differ(table: TableId, columns: Sequence[TableField], parent: str = "") -> None:
    """Raises Invalid if two columns, or two fields of one STRUCT, have the same name. `parent`: the STRUCT's path."""
    names = [column.name.lower() for column in columns]
    for column, name in zip(columns, names, strict=True):
        if names.count(name) > 1:
            raise Invalid(f"Duplicate column name [{parent}{name}] in the schema of {table}: name each column once.")
        _check_names_differ(table, column.fields, f"{parent}{name}.")


def _check_primary_key(table: TableId, settings: TableSettings) -> None:
    """Raises Invalid if BigQuery would refuse the key. Source: "Use primary and foreign keys", limitations."""
    if len(settings.primary_key) > MAXIMUM_KEY_COLUMNS:
        raise Invalid(
            f"The primary key of {table} has [{len(settings.primary_key)}] columns, allowed [{MAXIMUM_KEY_COLUMNS}]."
        )
    if len({name.lower() for name in settings.primary_key}) < len(settings.primary_key):
        raise Invalid(f"The primary key of {table} names a column twice: [{', '.join(settings.primary_key)}].")
    for name in settings.primary_key:
        column = settings.column(name)
        if column is None or column.mode == "REPEATED" or column.type not in KEY_TYPES:
            raise Invalid(
                f"Column [{name}] cannot be in the primary key of {table}: name top-level columns of the types "
                f"[{', '.join(sorted(KEY_TYPES))}]."
            )


def _check_clustering(table: TableId, settings: TableSettings) -> None:
    if len(settings.clustering) > MAXIMUM_CLUSTERING_COLUMNS:
        raise Invalid(
            f"{table} has [{len(settings.clustering)}] clustering columns, allowed [{MAXIMUM_CLUSTERING_COLUMNS}]."
        )
    if len({name.lower() for name in settings.clustering}) < len(settings.clustering):
        raise Invalid(f"The clustering of {table} names a column twice: [{', '.join(settings.clustering)}].")
    for name in settings.clustering:
        column = settings.column(name)
        if column is None:
            raise Invalid(f"The field specified for clustering cannot be found in the schema of {table}: [{name}].")
        if column.mode == "REPEATED" or column.type not in CLUSTERING_TYPES:
            raise Invalid(f"Clustering column [{name} {column.sql_type()}] of {table} has a type that cannot cluster.")


def check_replacement(table: TableId, existing: TableSettings, new: TableSettings) -> None:
    """Raises Invalid if CREATE OR REPLACE would change the table's partitioning or clustering."""
    if describe_partitioning(existing) != describe_partitioning(new):
        raise Invalid(
            f"Cannot replace a table with a different partitioning spec. Instead, DROP the table, and then recreate "
            f"it. New partitioning spec is {describe_partitioning(new)} and existing spec is "
            f"{describe_partitioning(existing)}: [{table}]"
        )
    if existing.clustering != new.clustering:
        raise Invalid(
            f"Cannot replace a table with a different clustering spec. Instead, DROP the table, and then recreate "
            f"it. New clustering spec is {describe_clustering(new)} and existing spec is "
            f"{describe_clustering(existing)}: [{table}]"
        )


_WIDENINGS = {("INT64", "NUMERIC"), ("INT64", "FLOAT64"), ("NUMERIC", "FLOAT64")}


def may_become(column: TableField, new: TableField, *, widens: bool = False) -> bool:
    """Whether a column of a table with rows may be changed to `new`, as BigQuery's "Modifying table schemas" says.

    Description and policy tags may change, and REQUIRED may become NULLABLE, also in a STRUCT, whose fields keep their
    names and order. `widens`: whether a type may become one that has all its values, as by ALTER TABLE. Raises
    NotImplementedConstruct for another type of an ARRAY, and if either type has parameters.
    """
    is_array = "REPEATED" in (column.mode, new.mode)
    if widens and is_array and column.sql_type(parameterized=True) != new.sql_type(parameterized=True):
        raise NotImplementedConstruct("SET DATA TYPE of an ARRAY")
    has_mode = column.mode == new.mode or (column.mode, new.mode) == ("REQUIRED", "NULLABLE")
    if column.name != new.name or not has_mode or len(column.fields) != len(new.fields):
        return False
    if column.fields:
        return all(may_become(*pair, widens=widens) for pair in zip(column.fields, new.fields, strict=True))
    if (column.type, column.parameters) == (new.type, new.parameters) or not widens:
        return (column.type, column.parameters) == (new.type, new.parameters)
    if column.parameters or new.parameters:
        raise NotImplementedConstruct("SET DATA TYPE from or to a type with parameters")
    return (column.type, new.type) in _WIDENINGS


def lineage(catalog: Catalog, table: TableId, clone: CloneDefinition | None) -> list[TableId]:
    """The tables from which a clone derives, nearest first; an empty list for a table that is not a clone."""
    bases: list[TableId] = []
    while clone is not None and clone.base not in bases and clone.base != table:
        bases.append(clone.base)
        version = catalog.find(clone.base)
        clone = version.clone if version else None
    return bases


def check_clone(catalog: Catalog, target: TableId, source: TableId, source_clone: CloneDefinition | None) -> None:
    """Raises Invalid if `source` cannot be cloned to `target`. `source_clone`: what `source` is a clone of, if any."""
    if target == source:
        raise Invalid(f"Cannot clone table {source} onto itself: name another target.")
    bases = lineage(catalog, source, source_clone)
    if target in bases:
        raise Invalid(
            f"Cannot clone {source} onto {target}: {source} is itself a clone of {target}. Restore {target} from its "
            "own earlier version with FOR SYSTEM_TIME AS OF, or load it."
        )
    if len(bases) + 1 > MAXIMUM_CLONE_DEPTH:
        raise Invalid(
            f"Cannot clone {source}: the chain of clones would be [{len(bases) + 1}] deep, allowed "
            f"[{MAXIMUM_CLONE_DEPTH}]. Clone from the base table [{bases[-1]}]."
        )
