"""Drops tables, and changes their metadata.

BigQuery refuses a change with PreconditionFailed if the table was changed since this module read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dedup_clone.contract.table import Column
from dedup_clone.warehouse.metadata import MILLISECONDS_PER_DAY, schema_field
from dedup_clone.warehouse.table_options import with_values

if TYPE_CHECKING:
    from google.cloud.bigquery import Client, Table

# Seconds in which a refused change of a reporting table is repeated. BigQuery limits how often a table changes in ten
# seconds. If other changes of the table use up this limit, the caller must try again later.
REPEATED_FOR_S = 30.0


class TableAlterations:
    """Changes of the tables of one dataset."""

    def __init__(self, client: Client, *, project: str, dataset: str) -> None:
        self._client = client
        self._dataset = f"{project}.{dataset}"

    def set_partition_expiration(self, table_name: str, days: int) -> None:
        """Let BigQuery delete each partition of the table `days` after its date."""
        table = self._table(table_name)
        partitioning = table.time_partitioning
        partitioning.expiration_ms = days * MILLISECONDS_PER_DAY
        table.time_partitioning = partitioning
        self._client.update_table(table, ["time_partitioning"])

    def set_clustering(self, table_name: str, columns: Sequence[str]) -> None:
        """Set the clustering columns for rows that are written from now on. Present rows are not clustered again."""
        table = self._table(table_name)
        table.clustering_fields = list(columns) or None
        self._client.update_table(table, ["clustering_fields"])

    def describe(self, table_name: str, descriptions: Mapping[str, str], primary_key: Sequence[str]) -> None:
        """Set the descriptions of columns, by column path, and the table's primary key.

        Descriptions of other columns, and foreign keys, stay; so does the primary key if `primary_key` is empty.
        """
        from google.cloud.bigquery.table import PrimaryKey, TableConstraints

        table = self._table(table_name)
        _set_in_schema(table, "description", descriptions)
        if primary_key:
            foreign_keys = table.table_constraints.foreign_keys if table.table_constraints else None
            table.table_constraints = TableConstraints(PrimaryKey(list(primary_key)), foreign_keys)
        self._client.update_table(table, ["schema", *(["table_constraints"] if primary_key else [])])

    def describe_table(self, table_name: str, description: str, columns: Mapping[str, str]) -> None:
        """Set the descriptions of the table and of `columns`, by column path, unless it has them already.

        Descriptions of other columns stay. A refused change is repeated for REPEATED_FOR_S.
        """
        from google.cloud.bigquery import DEFAULT_RETRY

        table = self._table(table_name)
        found, fields = table.description, table.schema
        table.description = description
        _set_in_schema(table, "description", columns)
        if (table.description, table.schema) != (found, fields):
            self._client.update_table(
                table, ["description", "schema"], retry=DEFAULT_RETRY.with_timeout(REPEATED_FOR_S)
            )

    def add_columns(self, table_name: str, columns: Sequence[Column]) -> None:
        """Add columns after all others; present rows have NULL there."""
        from google.cloud.bigquery import SchemaField

        table = self._table(table_name)
        table.schema = [*table.schema, *(SchemaField.from_api_repr(schema_field(column)) for column in columns)]
        self._client.update_table(table, ["schema"])

    def relax_columns(self, table_name: str, paths: Sequence[str]) -> None:
        """Make REQUIRED columns NULLABLE, by column path. DDL statements cannot do this to nested columns."""
        table = self._table(table_name)
        _set_in_schema(table, "mode", dict.fromkeys(paths, "NULLABLE"))
        self._client.update_table(table, ["schema"])

    def set_kms_key(self, table_name: str, key: str) -> None:
        """Let BigQuery encrypt the table with this Cloud KMS key. It may take a while until this is done."""
        from google.cloud.bigquery import EncryptionConfiguration

        table = self._table(table_name)
        table.encryption_configuration = EncryptionConfiguration(kms_key_name=key)
        self._client.update_table(table, ["encryption_configuration"])

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
        table.labels = {**dict.fromkeys(table.labels), **labels}
        table.description, table.friendly_name = description, friendly_name
        table.require_partition_filter = require_partition_filter
        changed = ["labels", "description", "friendly_name", "require_partition_filter"]
        partitioning = table.time_partitioning
        if partitioning.expiration_ms != days * MILLISECONDS_PER_DAY:
            partitioning.expiration_ms = days * MILLISECONDS_PER_DAY
            table.time_partitioning = partitioning
            changed.append("time_partitioning")
        self._client.update_table(table, changed)

    def remove_label(self, table_name: str, label: str) -> None:
        """Remove a label of a table. Changes nothing if the table lacks it."""
        table = self._table(table_name)
        table.labels = {**table.labels, label: None}
        self._client.update_table(table, ["labels"])

    def _table(self, name: str) -> Table:
        return self._client.get_table(f"{self._dataset}.{name}")


def _set_in_schema(table: Table, key: str, values: Mapping[str, str]) -> None:
    """Give columns another value of the property `key`. `values`: the new values, by column path."""
    from google.cloud.bigquery import SchemaField

    fields = with_values([field.to_api_repr() for field in table.schema], key, values)
    table.schema = [SchemaField.from_api_repr(field) for field in fields]
