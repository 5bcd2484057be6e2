"""Dates of a replay that reads nothing, because the parent contains its deliveries."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.manifest_checks import check_missing_dates
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DateOutcome
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.settings.check_settings import CheckSettings
from dedup_spark.candidate.new_manifest import PlanResults, assemble_generation
from dedup_spark.parent import Parent
from dedup_spark.plan_selection import unchanged_plans
from tests.unit.checks.builders import TODAY, entry, manifest

YESTERDAY = TODAY - timedelta(days=1)


def test_a_date_that_the_parent_copied_forward_is_not_missing_in_a_replay_of_what_is_live() -> None:
    arrival: Any = SimpleNamespace(delivery=Delivery(7, 1))
    request: Any = SimpleNamespace(
        plan=Plan.AUTO, retention_day=YESTERDAY, deliveries=[arrival], update_id_mode=UpdateIdMode.LAST_SEEN
    )
    # As after a replay of today alone: its manifest says that yesterday was copied forward.
    entries = {
        YESTERDAY: entry(YESTERDAY, plan=DateOutcome.COPIED_FORWARD),
        TODAY: entry(TODAY, plan=DateOutcome.REWRITE),
    }
    parent = Parent("", entries, (), 7, 0, deliveries=frozenset([arrival.delivery]), complete_since=YESTERDAY)
    plans = unchanged_plans(request, parent)
    assert plans is not None
    generation = assemble_generation(UpdateIdMode.LAST_SEEN, plans, {}, PlanResults(), parent)
    assert [e.plan for e in generation.dates] == [DateOutcome.UNCHANGED, DateOutcome.REWRITE]
    result = check_missing_dates(manifest(*generation.dates), CheckSettings(max_missing_dates=0))
    assert (result.level, result.found) == (Level.PASS, "none missing")
