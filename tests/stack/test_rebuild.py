"""FEED_rebuild and a table of changes on the real stack, as `soak lifecycle` runs them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from soak import rebuild_run
from soak.lifecycle import run_approved
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import StackClient
from testkit.waiting import wait_for

pytestmark = [pytest.mark.stack, pytest.mark.exhaustive, pytest.mark.timeout(1200)]


def test_a_table_is_rebuilt_in_another_form_and_the_next_snapshot_is_published_with_its_changes(
    proxied_stack: ProxiedStack, stack: StackClient, tmp_path: Path
) -> None:
    rebuild_run.write_feed(proxied_stack.layout.dags_folder)
    dags = [f"{rebuild_run.FEED}_{dag}" for dag in ("watch", "publish", "rebuild")]
    wait_for(lambda: all(stack.airflow.is_paused(dag) is False for dag in dags), f"Airflow knows {dags}")
    run = rebuild_run.RebuildRun(proxied_stack, stack, tmp_path / "snapshots")
    run.rebuild(partial(run_approved, stack))
    assert run.problems == []
    assert len(run.facts) == 3
