"""A dry run returns what the run would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse


def test_undrop_has_the_operation_that_it_has_in_a_run(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.statistics("CREATE SCHEMA d")
    warehouse.statistics("DROP SCHEMA d")
    run = warehouse.run("UNDROP SCHEMA d")
    dry = warehouse.stand_in.queries.dry_run(replace(run, job_id="dry"))
    operation = "ddlOperationPerformed"
    assert dry["query"][operation] == run.statistics["query"][operation] == "CREATE"
