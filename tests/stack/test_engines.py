"""The commands of docs/engines.md: each engine, and Spark in a stored procedure, publishes on the local stack."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dedup_clone.contract.engine import Engine
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import StackClient, as_tuples, row
from testkit.waiting import wait_for

pytestmark = [pytest.mark.stack, pytest.mark.exhaustive, pytest.mark.timeout(1200)]

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
TODAY = datetime.now(UTC).date()
ENGINES = {
    "with_bigquery": Engine.BIGQUERY,
    "with_merge": Engine.MERGE,
    "with_cdc": Engine.CDC,
    "with_procedure": Engine.SPARK,
}


def commands() -> str:
    """The commands of the page that make feed files; those of make are left out."""
    _, section = PAGE.read_text().split("## Try each engine on your machine\n")
    block = section.split("```bash\n")[1].split("```")[0]
    return "\n".join(line for line in block.splitlines() if "make " not in line)


def test_each_engine_publishes_by_the_commands_of_the_page(
    proxied_stack: ProxiedStack, stack: StackClient, tmp_path: Path
) -> None:
    subprocess.run(["sh", "-euc", commands()], cwd=proxied_stack.layout.dags_folder.parent, check=True)
    dags = [f"{feed}_{dag}" for feed in ENGINES for dag in ("watch", "publish")]
    wait_for(lambda: all(stack.airflow.is_paused(dag) is False for dag in dags), f"Airflow knows {dags}")
    for number in (1, 2):
        rows = [row(TODAY, 1, number, number), row(TODAY, 10 + number, 7, number)]
        runs = {feed: stack.land(feed, number, rows, tmp_path / feed / str(number)) for feed in ENGINES}
        for feed, run_id in runs.items():
            assert stack.wait_for_run(feed, run_id) == "success", stack.task_states(feed, run_id)
            assert set(as_tuples(rows)) <= set(stack.rows(feed))
    for feed, engine in ENGINES.items():
        assert len(stack.rows(feed)) == 3
        last = proxied_stack.ledger(feed)[-1]
        assert last.engine is engine
        assert last.cost
        assert (last.cost.streamed_bytes > 0) == (engine is Engine.CDC)
    procedures = [routine.routine_id for routine in stack.bigquery.list_routines("warehouse")]
    assert any("with_procedure" in name for name in procedures)
