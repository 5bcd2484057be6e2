"""A dry run returns what the run would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from devstack.bigquery.bigquery_errors import InvalidQuery, NotFound, StandInError
from devstack.bigquery.jobs.job_record import JobRecord
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse


def test_undrop_has_the_operation_that_it_has_in_a_run(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d")
    warehouse.statistics("DROP SCHEMA d")
    run = warehouse.run("UNDROP SCHEMA d")
    dry = warehouse.stand_in.queries.dry_run(replace(run, job_id="dry"))
    operation = "ddlOperationPerformed"
    assert dry["query"][operation] == run.statistics["query"][operation] == "CREATE"


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("INSERT d.nothing (v) VALUES (1)", NotFound, "Not found: Table"),
        ("INSERT d.t (w) VALUES (1)", InvalidQuery, "Column w is not present"),
        ("INSERT d.t (v) VALUES ('a')", InvalidQuery, "cannot be inserted into column"),
        (
            "MERGE d.t USING (SELECT 1 AS v) s ON t.v = s.v WHEN NOT MATCHED AND s.v IN (SELECT t.v) THEN INSERT ROW",
            InvalidQuery,
            "orrelated",
        ),
        (
            "MERGE d.t USING (SELECT 1 AS v) s ON t.v = s.v WHEN NOT MATCHED AND s.w = 1 THEN INSERT ROW",
            InvalidQuery,
            "w",
        ),
    ],
)
def test_dml_that_would_fail_is_refused(tmp_path: Path, sql: str, error: type[StandInError], message: str) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d; CREATE TABLE d.t (v INT64)")
    run = warehouse.run(sql)
    assert run.error is not None
    assert message in run.error["message"]
    with pytest.raises(error, match=message):
        warehouse.stand_in.queries.dry_run(replace(run, job_id="dry", error=None))


def test_an_insert_reads_its_table_in_a_dry_run_too(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d; CREATE TABLE d.t (v INT64)")
    run = warehouse.run("INSERT d.t VALUES (1)")
    dry = warehouse.stand_in.queries.dry_run(replace(run, job_id="dry"))
    assert dry["query"]["referencedTables"] == run.statistics["query"]["referencedTables"]


@pytest.mark.parametrize(
    ("layout", "where", "is_free"),
    [
        ("PARTITION BY day", "TRUE", True),
        ("PARTITION BY day", "t.day < DATE '2026-01-02'", True),
        ("PARTITION BY day CLUSTER BY v", "TRUE", False),
        ("PARTITION BY day", "name IS NULL", False),  # a NULL has no bytes
        ("PARTITION BY day", "info.day = DATE '2026-01-01'", False),
        ("", "TRUE", False),
    ],
)
def test_only_a_delete_of_whole_partitions_bills_nothing(
    tmp_path: Path, layout: str, where: str, is_free: bool
) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics(
        f"CREATE SCHEMA d; CREATE TABLE d.t (day DATE, v INT64, name STRING, info STRUCT<day DATE>) {layout}; "
        "INSERT d.t (day, v, info) VALUES (DATE '2026-01-01', 1, STRUCT(DATE '2026-01-01' AS day))"
    )
    sql = f"DELETE FROM d.t WHERE {where}"
    configuration = {"jobType": "QUERY", "query": {"query": sql, "useLegacySql": False}}
    dry = warehouse.stand_in.queries.dry_run(JobRecord("local-dev", "US", "dry", configuration, 0))
    run = warehouse.statistics(sql)
    assert run["dmlStats"] == {"deletedRowCount": "1"}
    assert [found["totalBytesBilled"] == "0" for found in (dry["query"], run)] == [is_free, is_free]
