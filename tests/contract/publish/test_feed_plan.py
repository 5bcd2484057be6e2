"""`make plan`: what a changed feed file does to its published table, by the command on the stand-in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.settings.check_settings import SqlCheck
from dedup_clone.settings.table_settings import ColumnSettings
from deploy import plan as command
from testkit.feed_on_stand_in import REPOSITORY, YESTERDAY, FeedOnStandIn, row

FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]


class Plans:
    """The command, for a folder with one profile and the feed files that a test writes."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        shutil.copytree(REPOSITORY / "dags" / "profiles", folder / "profiles")
        (folder / "feeds").mkdir()

    def write(self, world: FeedOnStandIn) -> None:
        text = yaml.safe_dump(world.feed.model_dump(mode="json", exclude_defaults=True))
        (self.folder / "feeds" / f"{world.feed.feed}.yaml").write_text(text)

    def show(self, world: FeedOnStandIn, *options: str) -> tuple[int, str]:
        """The exit status and the output of the command for the world's feed."""
        self.write(world)
        status = command.main(["--feed", world.feed.feed, *options], self.folder)
        captured = self._capsys.readouterr()
        return status, captured.out + captured.err


@pytest.fixture
def plans(
    world: FeedOnStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Plans:
    monkeypatch.setenv("DEDUP_CLONE_PROFILE", "local")
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", world.bigquery._connection.API_BASE_URL)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", world.storage._connection.API_BASE_URL)
    return Plans(tmp_path, capsys)


def change_table(world: FeedOnStandIn, **changes: Any) -> None:
    table = world.feed.table.model_copy(update=changes)
    world.feed = world.feed.model_copy(update={"table": table})


def add_column(world: FeedOnStandIn) -> None:
    change_table(world, columns=(*world.feed.table.columns, ColumnSettings(name="colour", type="STRING", since=9)))


def test_an_unchanged_feed_file_has_nothing_to_do(world: FeedOnStandIn, plans: Plans) -> None:
    status, shown = plans.show(world)
    assert (status, "is new" in shown) == (2, True)
    world.publish(world.land(7, FIRST))
    assert plans.show(world) == (0, f"{world.feed.feed}: nothing to do (generation 1 is live)\n")


@pytest.mark.exhaustive
def test_a_new_column_is_shown_with_its_cost_and_what_readers_notice(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    add_column(world)
    status, shown = plans.show(world)
    assert status == 2
    assert "change   new columns colour" in shown
    assert "costs: the Spark job reads and writes 0.00 GiB more; BigQuery bills nothing" in shown
    assert "readers: 1 more columns" in shown


@pytest.mark.exhaustive
def test_an_engine_in_sql_adds_a_column_that_readers_see_at_once(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    columns = (*world.feed.table.columns, ColumnSettings(name="colour", type="STRING"))
    change_table(world, columns=columns)
    world.feed = world.feed.model_copy(update={"engine": Engine.BIGQUERY})
    status, shown = plans.show(world)
    assert status == 2
    assert "adds them to staging and target before the query" in shown


def test_a_pull_request_gets_a_table(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    add_column(world)
    change_table(world, retention_days=400)
    status, shown = plans.show(world, "--markdown")
    assert status == 1
    assert "| Change | The next publish | Readers | Costs |" in shown
    assert "| new columns colour | adds them" in shown
    assert "- **Problem**: retention_days is [400], staging keeps [730] days" in shown


@pytest.mark.parametrize(
    "change",
    [
        {"keys": ("date", "product_id")},
        pytest.param({"retention_days": 400}, marks=pytest.mark.exhaustive),
        pytest.param({"cluster_by": ("store_id",)}, marks=pytest.mark.exhaustive),
    ],
    ids=["keys", "retention", "clustering"],
)
def test_what_the_plan_calls_a_problem_is_refused_in_the_same_words_before_the_dedup(
    world: FeedOnStandIn, plans: Plans, change: dict[str, Any]
) -> None:
    world.publish(world.land(7, FIRST))
    change_table(world, **change)
    status, shown = plans.show(world)
    assert status == 1
    (problem,) = [line.removeprefix("  problem  ") for line in shown.splitlines() if line.startswith("  problem")]
    with pytest.raises((CheckFailed, ConfigurationError)) as refused:
        world.resolve(world.land(8, FIRST))
    assert problem in str(refused.value)
    assert world.services.current.read().intent is None


def test_a_shorter_retention_is_approved_by_the_command(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    assert "no shorter retention to approve" in plans.show(world, "--apply")[1]
    change_table(world, retention_days=1)
    status, shown = plans.show(world)
    assert status == 1
    assert f"1 dates with 1 rows vanish, {YESTERDAY} to {YESTERDAY}" in shown
    status, shown = plans.show(world, "--apply")
    assert (status, "is approved" in shown) == (2, True)
    status, shown = plans.show(world)
    assert (status, "the retention is approved" in shown) == (2, True)


@pytest.mark.exhaustive
def test_another_partition_column_is_refused_and_the_plan_says_what_to_do_instead(
    world: FeedOnStandIn, plans: Plans
) -> None:
    change_table(world, columns=(*world.feed.table.columns, ColumnSettings(name="sold_on", type="DATE")))
    world.publish(world.land(7, FIRST))
    change_table(world, partition_column="sold_on", keys=("sold_on", *world.feed.table.keys[1:]))
    status, shown = plans.show(world)
    assert status == 1
    for words in (
        "partition_column is [sold_on], it was [date]",
        f"{world.feed.feed}_rebuild cannot make these changes",
        "publish it as a feed of another name, and let readers go there",
    ):
        assert words in shown
    with pytest.raises(ConfigurationError, match=r"partition_column is \[sold_on\]"):
        world.resolve(world.land(8, FIRST))
    assert world.services.current.read().intent is None


@pytest.mark.exhaustive
def test_another_mode_and_another_engine_are_shown(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    changes = {"engine": Engine.BIGQUERY, "update_id_mode": UpdateIdMode.LAST_SEEN}
    world.feed = world.feed.model_copy(update=changes)
    status, shown = plans.show(world)
    assert status == 2
    assert "engine spark becomes bigquery" in shown
    assert "USD on demand for each complete snapshot" in shown
    world.feed = world.feed.model_copy(update={"engine": Engine.CDC, "update_id_mode": UpdateIdMode.LAST_CHANGED})
    assert "USD on demand to stream and apply each snapshot's changes" in plans.show(world)[1]


@pytest.mark.exhaustive
def test_a_limit_that_the_newest_publish_exceeds_is_noted(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, [row(8, 1), row(8, 2), row(8, 4)]))
    checks = world.feed.checks.model_copy(update={"max_new_share": 0.01})
    world.feed = world.feed.model_copy(update={"checks": checks})
    status, shown = plans.show(world)
    assert status == 0
    assert "note     check new_share fails for a snapshot like the newest published one" in shown


OPTIONS = {
    "friendly_name": "Attributes",
    "labels": {"team": "stores"},
    "require_partition_filter": True,
    "kms_key": "projects/p/locations/us/keyRings/r/cryptoKeys/k",
}


def test_options_descriptions_and_primary_key_are_compared_with_target(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    before, columns = world.feed.table, list(world.feed.table.columns)
    columns[4] = columns[4].model_copy(update={"description": "What a shop measured."})
    options = before.options.model_copy(update=OPTIONS)
    change_table(world, options=options, primary_key=True, columns=tuple(columns))
    world.feed = world.feed.model_copy(update={"description": "One row for each attribute."})
    status, shown = plans.show(world)
    assert status == 2
    for words in (
        "change   friendly name becomes [Attributes]",
        "change   label [team] becomes [stores]",
        "change   require_partition_filter becomes [true]",
        "readers: queries without a filter on column [date] fail from the swap on",
        "change   KMS key becomes [projects/p/",
        "change   primary key becomes [date, product_id, store_id, attribute_id]",
        "change   descriptions of columns attr_value",
        "change   description of the table",
    ):
        assert words in shown
    world.publish(world.land(8, FIRST))
    assert plans.show(world) == (0, f"{world.feed.feed}: nothing to do (generation 2 is live)\n")
    change_table(world, options=before.options)
    status, shown = plans.show(world)
    assert (status, shown.count("is no longer declared")) == (2, 4)
    assert "removes it from target by the swap" in shown
    assert "keeps the key, because staging has it" in shown
    world.publish(world.land(9, FIRST))
    assert plans.show(world)[0] == 0


def test_the_table_of_changes_is_compared_and_what_it_would_lose_is_said(world: FeedOnStandIn, plans: Plans) -> None:
    name = f"{world.feed.feed}_changes"
    world.publish(world.land(7, FIRST))
    world.feed = world.feed.model_copy(update={"changes": True})
    status, shown = plans.show(world)
    assert (status, "change   [changes] is true" in shown) == (2, True)
    assert f"makes {name}, by a free load job" in shown.replace("warehouse.", "").replace("local-dev.", "")
    world.publish(world.land(8, [row(8, 1, 30), row(8, 2)]))
    assert plans.show(world)[0] == 0
    columns = list(world.feed.table.columns)
    columns[4] = columns[4].model_copy(update={"type": "NUMERIC"})
    declared = world.feed
    change_table(world, columns=tuple(columns))
    status, shown = plans.show(world)
    assert status == 2
    assert "cannot keep its rows, because columns get another name or type" in shown
    assert "the 1 rows of earlier generations are dropped" in shown
    world.feed = declared.model_copy(update={"changes_days": 30})
    shown = plans.show(world)[1]
    assert "becomes 30, it was 60" in shown
    assert "changes older than 30 days vanish" in shown
    world.feed = declared.model_copy(update={"changes_days": 90})
    assert "vanish" not in plans.show(world)[1]
    world.feed = declared.model_copy(update={"changes": False})
    status, shown = plans.show(world)
    assert (status, "[changes] is no longer true" in shown) == (2, True)


def test_settings_of_engine_cdc_are_compared(world: FeedOnStandIn, plans: Plans) -> None:
    changes = {"engine": Engine.CDC, "update_id_mode": UpdateIdMode.LAST_CHANGED}
    world.feed = world.feed.model_copy(update=changes)
    world.publish(world.land(7, FIRST))
    assert plans.show(world)[0] == 0
    staging = world.bigquery.get_table(f"local-dev.warehouse.{world.feed.staging}")
    staging.max_staleness = "0-0 0 0:15:0"  # as the first publish that streams sets it
    world.bigquery.update_table(staging, ["max_staleness"])
    cdc = world.feed.cdc.model_copy(update={"max_staleness_minutes": 90, "publish": "direct"})
    world.feed = world.feed.model_copy(update={"cdc": cdc})
    status, shown = plans.show(world)
    assert status == 2
    assert "max_staleness becomes [0-0 0 1:30:0], it was [0-0 0 0:15:0]" in shown
    assert "cdc.publish becomes [direct]" in shown


def test_queries_of_the_feed_are_tried_and_new_ones_shown_with_what_they_read(
    world: FeedOnStandIn, plans: Plans
) -> None:
    world.publish(world.land(7, FIRST))
    query = plans.folder / "feeds" / world.feed.feed / "negative.sql"
    query.parent.mkdir()
    query.write_text("SELECT product_id FROM {{ staging }} WHERE attr_valu < 0")
    checks = world.feed.checks.model_copy(update={"sql": (SqlCheck(name="negative"),)})
    world.feed = world.feed.model_copy(update={"checks": checks})
    status, shown = plans.show(world)
    assert status == 1
    assert "problem  FAIL sql_negative: [the query fails: " in shown
    query.write_text("SELECT product_id FROM {{ staging }} WHERE attr_value < 0")
    status, shown = plans.show(world)
    assert status == 2
    assert "change   check sql_negative is new" in shown
    assert "costs: the query reads 0.00 GiB" in shown
    world.feed.read_queries(query.parent.parent)
    world.publish(world.land(8, FIRST))
    assert plans.show(world)[0] == 0
    add_column(world)
    assert "SQL checks were not tried" in plans.show(world)[1]


def test_what_a_rebuild_costs_is_shown(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    columns = list(world.feed.table.columns)
    columns[4] = columns[4].model_copy(update={"type": "STRING"})
    change_table(world, columns=tuple(columns))
    status, shown = plans.show(world)
    assert status == 1
    assert f"trigger {world.feed.feed}_rebuild, which makes these changes after your approval" in shown
    assert "a query that reads 0.00 GiB, about 0.00 USD on demand" in shown


def test_all_feeds_are_compared_and_a_removed_file_is_noticed(
    world: FeedOnStandIn, plans: Plans, capsys: pytest.CaptureFixture[str]
) -> None:
    world.publish(world.land(7, FIRST))
    (plans.folder / "feeds" / "broken.yaml").write_text("feed: broken\n")
    damaged = f"{world.feed.feed}_damaged"
    world.services.store.create(f"{damaged}/CURRENT", "{}")
    assert command.main([], plans.folder) == 1
    world.services.store.delete_prefix(f"{damaged}/")
    shown = capsys.readouterr().out
    assert f"{damaged}: 1 problem (not compared)" in shown
    assert "broken: 1 problem (not compared)" in shown
    assert f"{world.feed.feed}: 1 change (generation 1 is live)\n  change   the feed file is gone" in shown
