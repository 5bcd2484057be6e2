"""The comparison on the stand-in, with columns of every type: what it counts is what an oracle in Python counts."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import date
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import ExternalConfig, LoadJobConfig, QueryJobConfig, ScalarQueryParameter, SchemaField
from google.cloud.storage import Client as Storage

from dedup_clone.contract.table import TableContract
from dedup_clone.publish.attempt_jobs import external_table
from dedup_clone.publish.partition_comparison import PUBLISHED_FILES, SQL_FILE
from dedup_clone.warehouse.metadata import schema_field
from dedup_clone.warehouse.sql_files import TableNames, render
from testkit.feed_on_stand_in import SQL
from tests.shared.compared_rows import DAY, TABLE, Row, batch, comparison, damaged, damages, narrow_table, random_rows
from tests.spark import file_catalogue
from tests.thoroughness import every_third

FOLDER = "compared"
ROWS = random_rows(3, 40)
NUMBERS = count(1)
# tests/sql/test_partition_comparison.py has every damage of every column.
NESTED = ("nested.f_datetime changed", "list.tags changed")
HARMLESS = ("nothing", "other order", "NULL for empty arrays")


@dataclass(frozen=True)
class Compared:
    """A table that is compared with files. `uris`: those of the files."""

    storage: Storage
    bigquery: BigQuery
    table: str

    def upload(self, name: str, content: bytes) -> str:
        self.storage.bucket("state").blob(f"{FOLDER}/{name}").upload_from_string(content)
        return f"gs://state/{FOLDER}/{name}"

    def load(self, table: TableContract, content: pa.RecordBatch) -> None:
        """Replace the rows of the table by these."""
        schema = [SchemaField.from_api_repr(schema_field(column)) for column in table.columns]
        config = LoadJobConfig(
            schema=schema,
            source_format="PARQUET",
            write_disposition="WRITE_TRUNCATE",
            create_disposition="CREATE_IF_NEEDED",
        )
        config._properties["load"]["parquetOptions"] = {"enableListInference": True}
        uri = self.upload("table.parquet", parquet(content))
        self.bigquery.load_table_from_uri(uri, f"warehouse.{self.table}", job_config=config).result()

    def compare(self, table: TableContract, day: date, *uris: str, expected: str = "") -> tuple[int, ...]:
        names = TableNames("local-dev", "warehouse", self.table, self.table)
        definition = external_table(PUBLISHED_FILES, uris)[PUBLISHED_FILES]
        config = QueryJobConfig(
            query_parameters=[ScalarQueryParameter("compared_date", "DATE", day)],
            table_definitions={PUBLISHED_FILES: ExternalConfig.from_api_repr(definition)} if uris else {},
        )
        sql = render(SQL, SQL_FILE, names=names, table=table, expected=expected)
        (row,) = self.bigquery.query_and_wait(sql, job_config=config)
        return row["row_count"], row["expected_rows"], row["missing"], row["surplus"]


def parquet(content: pa.RecordBatch) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_batches([content]), buffer)
    return buffer.getvalue()


@pytest.fixture
def compared(clients: tuple[Storage, BigQuery]) -> Compared:
    """Each test has a table of its own, because BigQuery takes five updates of one table in ten seconds."""
    return Compared(*clients, table=f"compared_{next(NUMBERS)}")


def compare_with_files(compared: Compared, table: TableContract, rows: list[Row]) -> tuple[int, ...]:
    halves = [ROWS[:15], ROWS[15:]]
    uris = [compared.upload(f"part-{n}.parquet", parquet(batch(half, table))) for n, half in enumerate(halves)]
    compared.load(table, batch(rows, table))
    return compared.compare(table, DAY, *uris)


@pytest.mark.parametrize("damage", every_third([*(name for name in damages() if "." not in name), *NESTED]))
def test_each_damage_of_a_partition_is_counted(compared: Compared, damage: str) -> None:
    rows = damaged(ROWS, damage)
    expected = comparison(rows, ROWS)
    assert compare_with_files(compared, narrow_table(damage), rows) == expected
    assert (expected[2:] == (0, 0)) == (damage in HARMLESS)


def test_all_types_in_one_table(compared: Compared) -> None:
    rows = [*damaged(ROWS, "list.inside.f_bytes changed"), *random_rows(4, 10)]
    assert compare_with_files(compared, TABLE, rows) == comparison(rows, ROWS) == (50, 40, 1, 11)


def test_two_tables_are_compared_alike(compared: Compared) -> None:
    table = narrow_table("c_datetime changed")
    compared.load(table, batch(ROWS, table))
    compared.bigquery.query_and_wait("CREATE OR REPLACE TABLE warehouse.other CLONE warehouse." + compared.table)
    compared.load(table, batch(damaged(ROWS, "c_datetime changed"), table))
    assert compared.compare(table, DAY, expected="`local-dev.warehouse.other`") == (40, 40, 1, 1)


@pytest.mark.parametrize("path", sorted(file_catalogue.STORED.glob("*.parquet")), ids=lambda path: path.stem)
def test_an_adopted_file_is_read_by_its_own_schema_whatever_arrow_schema_its_writer_added(
    compared: Compared, path: Any
) -> None:
    table = file_catalogue.TABLE
    day = pq.read_table(path, columns=["day"])["day"][0].as_py()
    rows = pa.Table.from_pylist(file_catalogue.expected(day), file_catalogue.SCHEMA)
    compared.load(table, rows.combine_chunks().to_batches()[0])
    number = rows.num_rows
    assert compared.compare(table, day, compared.upload(path.name, path.read_bytes())) == (number, number, 0, 0)
