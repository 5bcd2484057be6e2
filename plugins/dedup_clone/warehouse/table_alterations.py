"""Drops tables, and changes their metadata.

BigQuery refuses a change with PreconditionFailed if the table was changed since this module read it. With a `version`,
LostRace is raised if the table has another one by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import LostRace
from dedup_clone.contract.table import Column
from dedup_clone.warehouse.metadata import MILLISECONDS_PER_DAY, schema_field, table_metadata
from dedup_clone.warehouse.table_options import staleness_text, with_values

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from google.cloud.bigquery import Client, SchemaField, Table
    from google.cloud.bigquery.table import TableConstraints

# Seconds in which a refused change of a reporting table is repeated. BigQuery limits how often a table changes in ten
# seconds. If other changes of the table use up this limit, the caller must try again later.
REPEATED_FOR_S = 30.0


class TableAlterations:
    """Changes of the tables of one dataset."""

    def __init__(self, client: Client, *, project: str, dataset: str) -> None:
        self._client = client
        self._dataset = f"{project}.{dataset}"

    def set_partition_expiration(self, table_name: str, days: int, *, version: str = "") -> None:
        """Let BigQuery delete each partition of the table `days` after its date."""
        table = self._table(table_name, version)
        partitioning = table.time_partitioning
        partitioning.expiration_ms = days * MILLISECONDS_PER_DAY
        self._update(table, time_partitioning=partitioning)

    def set_clustering(
        self, table_name: str, columns: Sequence[str], *, version: str = "", labels: Mapping[str, str] | None = None
    ) -> None:
        """Set the clustering columns for rows that are written from now on. Present rows are not clustered again.

        `labels`: are added.
        """
        table = self._table(table_name, version)
        self._update(table, clustering_fields=list(columns) or None, labels={**table.labels, **(labels or {})})

    def describe(self, table_name: str, descriptions: Mapping[str, str], primary_key: Sequence[str]) -> None:
        """Set the descriptions of columns, by column path, and the table's primary key.

        Descriptions of other columns, and foreign keys, stay; so does the primary key if `primary_key` is empty.
        """
        table = self._table(table_name)
        changed: dict[str, Any] = {"schema": _schema(table, "description", descriptions)}
        if primary_key:
            changed["table_constraints"] = _constraints(table, primary_key)
        self._update(table, **changed)

    def describe_table(self, table_name: str, description: str, columns: Mapping[str, str]) -> None:
        """Set the descriptions of the table and of `columns`, by column path, unless it has them already.

        Descriptions of other columns stay. A refused change is repeated for REPEATED_FOR_S.
        """
        from google.cloud.bigquery import DEFAULT_RETRY

        table = self._table(table_name)
        schema = _schema(table, "description", columns)
        if (table.description, table.schema) != (description, schema):
            retry = DEFAULT_RETRY.with_timeout(REPEATED_FOR_S)
            self._update(table, retry=retry, description=description, schema=schema)

    def prepare_for_changes(self, table_name: str, primary_key: Sequence[str], max_staleness_minutes: int) -> None:
        """Give a table what streamed changes need: this primary key and the option `max_staleness`."""
        table, max_staleness = self._table(table_name), staleness_text(max_staleness_minutes)
        constraints = table.table_constraints
        found = constraints.primary_key.columns if constraints and constraints.primary_key else ()
        if (list(found), table.max_staleness) != (list(primary_key), max_staleness):
            self._update(table, table_constraints=_constraints(table, primary_key), max_staleness=max_staleness)

    def add_columns(self, table_name: str, columns: Sequence[Column]) -> None:
        """Add columns after all others; present rows have NULL there."""
        from google.cloud.bigquery import SchemaField

        table = self._table(table_name)
        added = [SchemaField.from_api_repr(schema_field(column)) for column in columns]
        self._update(table, schema=[*table.schema, *added])

    def relax_columns(self, table_name: str, paths: Sequence[str]) -> None:
        """Make REQUIRED columns NULLABLE, by column path. DDL statements cannot do this to nested columns."""
        table = self._table(table_name)
        self._update(table, schema=_schema(table, "mode", dict.fromkeys(paths, "NULLABLE")))

    def set_kms_key(self, table_name: str, key: str) -> None:
        """Let BigQuery encrypt the table with this Cloud KMS key. It may take a while until this is done."""
        from google.cloud.bigquery import EncryptionConfiguration

        self._update(self._table(table_name), encryption_configuration=EncryptionConfiguration(kms_key_name=key))

    def drop(self, table_name: str) -> None:
        """Drop a table of the dataset, if it exists."""
        self._client.delete_table(f"{self._dataset}.{table_name}", not_found_ok=True)

    def set_options(
        self,
        table_name: str,
        label: tuple[str, str],
        *,
        labels: Mapping[str, str],
        description: str,
        friendly_name: str | None,
        require_partition_filter: bool,
        days: int,
    ) -> None:
        """Replace options of the table, and remove other labels, unless the table lacks this `label`.

        `days`: after which BigQuery deletes a partition. It is set only if it differs, because that invalidates
        materialized views.
        """
        table = self._table(table_name)
        if label not in table.labels.items():
            return
        changed: dict[str, Any] = {
            "labels": {**dict.fromkeys(table.labels), **labels},
            "description": description,
            "friendly_name": friendly_name,
            "require_partition_filter": require_partition_filter,
        }
        partitioning = table.time_partitioning
        if partitioning.expiration_ms != days * MILLISECONDS_PER_DAY:
            partitioning.expiration_ms = days * MILLISECONDS_PER_DAY
            changed["time_partitioning"] = partitioning
        self._update(table, **changed)

    def remove_label(self, table_name: str, label: str) -> None:
        """Remove a label of a table. Changes nothing if the table lacks it."""
        table = self._table(table_name)
        self._update(table, labels={**table.labels, label: None})

    def _table(self, name: str, version: str = "") -> Table:
        table = self._client.get_table(f"{self._dataset}.{name}")
        if version not in ("", table_metadata(table).version):
            raise LostRace(f"Table [{name}] was changed meanwhile: this task tries again by itself.")
        return table

    def _update(self, table: Table, *, retry: Retry | None = None, **properties: Any) -> None:
        """Set properties of the client library's class Table."""
        from google.cloud.bigquery import DEFAULT_RETRY

        for name, value in properties.items():
            setattr(table, name, value)
        self._client.update_table(table, list(properties), retry=retry or DEFAULT_RETRY)


def _constraints(table: Table, primary_key: Sequence[str]) -> TableConstraints:
    """The table's constraints with this primary key."""
    from google.cloud.bigquery.table import PrimaryKey, TableConstraints

    foreign_keys = table.table_constraints.foreign_keys if table.table_constraints else None
    return TableConstraints(PrimaryKey(list(primary_key)), foreign_keys)


def _schema(table: Table, key: str, values: Mapping[str, str]) -> list[SchemaField]:
    """The table's schema with other values of the property `key`: `values` by column path."""
    from google.cloud.bigquery import SchemaField

    fields = with_values([field.to_api_repr() for field in table.schema], key, values)
    return [SchemaField.from_api_repr(field) for field in fields]
