"""`make plan`: what a changed feed file does to its published table, by the command on the stand-in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError
from dedup_clone.contract.table import Absent, UpdateIdMode
from dedup_clone.settings.check_settings import SqlCheck
from dedup_clone.settings.feed import Feed
from deploy.__main__ import main
from testkit import runs
from testkit.feed_on_stand_in import REPOSITORY, YESTERDAY, FeedOnStandIn, row, today
from tests.contract.publish.existing_tables import column, land_declared, with_columns, with_table

PROBLEM = "- **Problem**: "
FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
EIGHTH, NINTH = ([{**one, "update_id": number} for one in FIRST] for number in (8, 9))
CDC = {"engine": Engine.CDC, "update_id_mode": UpdateIdMode.LAST_CHANGED}


class Plans:
    """The command for a world's feed, in a folder with one profile and the feed files that a test writes."""

    def __init__(self, world: FeedOnStandIn, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self.folder, self._capsys = world, folder, capsys
        shutil.copytree(REPOSITORY / "dags" / "profiles", folder / "profiles")
        (folder / "feeds").mkdir()

    def show(self, *options: str, every_feed: bool = False) -> tuple[int, str]:
        """The exit status and the output of the command."""
        feed = self.world.feed
        text = yaml.safe_dump(feed.model_dump(mode="json", exclude_defaults=True))
        (self.folder / "feeds" / f"{feed.feed}.yaml").write_text(text)
        status = main(["plan", *([] if every_feed else ["--feed", feed.feed]), *options], self.folder)
        captured = self._capsys.readouterr()
        return status, captured.out + captured.err

    def expect(self, status: int, *words: str, options: tuple[str, ...] = ()) -> None:
        found, shown = self.show(*options)
        assert (found, [word for word in words if word not in shown]) == (status, []), shown


@pytest.fixture
def plans(
    world: FeedOnStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Plans:
    monkeypatch.setenv("DEDUP_CLONE_PROFILE", "local")
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", world.bigquery._connection.API_BASE_URL)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", world.storage._connection.API_BASE_URL)
    return Plans(world, tmp_path, capsys)


def other(**changes: Any) -> Callable[[Feed], Feed]:
    return lambda feed: feed.model_copy(update=changes)


def of_table(**changes: Any) -> Callable[[Feed], Feed]:
    return lambda feed: with_table(feed, **changes)


def of_column(name: str, kind: str, **settings: Any) -> Callable[[Feed], Feed]:
    return lambda feed: with_columns(feed, **{name: column(name, kind, **settings)})


# Exit status (0: nothing to do, 1: problems, 2: changes), and parts of the text.
CASES: list[tuple[Callable[[Feed], Feed], int, tuple[str, ...]]] = [
    (lambda feed: feed, 0, ("(generation 2 is live)", "nothing to do")),
    (of_column("colour", "STRING", since=9), 2, ("column [colour] is [STRING NULLABLE], it was [none]: NULL in the",)),
    (other(engine=Engine.BIGQUERY), 2, ("engine is [bigquery], it was [spark]: the rows are the same",)),
    (other(**CDC), 2, ("engine is [cdc], it was [spark]", "update_id_mode is [last_changed], it was [last_seen]")),
    (of_column("attr_value", "STRING"), 1, ("_rebuild, which makes these changes after your approval", "0.00 USD")),
    (of_column("attr_value", "NUMERIC"), 2, ("column [attr_value] is [NUMERIC NULLABLE], it was [INT64 NULLABLE]",)),
    (of_table(keys=("date", "product_id")), 1, ("**Problem**: keys is [date, product_id]",)),
    (of_table(retention_days=400), 1, ("retention_days is [400]",)),
    (of_table(cluster_by=("store_id",)), 1, ("cluster_by is [store_id]", "clustered by")),
    (of_table(absent_keys=Absent.DELETE), 2, ("absent_keys is [delete], it was [keep]: delete removes each key that",)),
    (of_table(keep_previous="7d"), 2, ("keep_previous is [7d], it was [none]",)),
    (other(changes=True), 2, ("changes is [true], it was [false]: ",)),
]


def test_a_changed_feed_file_is_compared_with_what_is_published(world: FeedOnStandIn, plans: Plans) -> None:
    plans.expect(2, "(never published)", "is new")
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, [row(8, 1), row(8, 2), row(8, 4)]))
    former, waiting = world.feed, world.land(9, FIRST)
    for change, status, words in CASES:
        world.feed = change(former)
        plans.expect(status, *words)
        if status == 1:
            # What the plan calls a problem is refused before the dedup, in the same words.
            lines = plans.show()[1].splitlines()
            problem = next(line.removeprefix(PROBLEM) for line in lines if line.startswith(PROBLEM))
            with pytest.raises((CheckFailed, ConfigurationError)) as refused:
                world.resolve(waiting)
            assert problem in str(refused.value)
            assert world.state.lease is None


def test_another_partition_column_is_refused_and_the_plan_says_what_to_do_instead(
    world: FeedOnStandIn, plans: Plans
) -> None:
    world.feed = with_columns(world.feed, sold_on=column("sold_on", "DATE"))
    world.publish(land_declared(world, 7, FIRST[:2]))
    world.feed = with_table(world.feed, partition_column="sold_on", keys=("sold_on", *world.feed.table.keys[1:]))
    plans.expect(1, "partition_column is [sold_on], it was [date]", "publish it as a feed of another name")


def test_all_feeds_are_compared_also_those_without_a_file(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    former = world.feed
    plans.show()
    (plans.folder / "feeds" / "broken.yaml").write_text("feed: broken\n")
    world.feed = former.model_copy(update={"feed": "another"})
    (plans.folder / "feeds" / f"{former.feed}.yaml").unlink()
    damaged = world.storage.bucket("state").blob(f"{former.feed}_damaged/CURRENT")
    damaged.upload_from_string("{}")
    status, shown = plans.show(every_feed=True)
    damaged.delete()
    assert status == 1
    for name in ("broken", f"{former.feed}_damaged"):
        assert f"**{name}** (not compared)\n\n{PROBLEM}" in shown
    assert f"**{former.feed}** (generation 1 is live)\n\n- the feed file is gone" in shown


def test_a_shorter_retention_is_approved_by_the_command(world: FeedOnStandIn, plans: Plans) -> None:
    day = today() - timedelta(days=1)
    world.publish(world.land(7, [row(7, 1, day=today()), row(7, 2, day=day)]))
    plans.expect(1, "no shorter retention to approve", options=("--apply",))
    world.feed = with_table(world.feed, retention_days=1)
    vanishes = f"retention_days is [1], it was [730]: 1 dates with 1 rows vanish, {day} to {day}"
    plans.expect(1, vanishes, PROBLEM)
    plans.expect(2, vanishes, "is approved", options=("--apply",))
    plans.expect(2, vanishes)


OPTIONS = {
    "friendly_name": "Attributes",
    "labels": {"team": "stores"},
    "require_partition_filter": True,
    "kms_key": "projects/p/locations/us/keyRings/r/cryptoKeys/k",
}


def test_options_descriptions_and_primary_key_are_compared_with_target(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    before = world.feed.table
    described = of_column("attr_value", "INT64", description="What a shop measured.")(world.feed)
    options = before.options.model_copy(update=OPTIONS)
    world.feed = with_table(described, options=options, primary_key=True)
    world.feed = world.feed.model_copy(update={"description": "One row for each attribute."})
    plans.expect(
        2,
        *("friendly name is [Attributes], it was [none]", "label [team] is [stores]", "KMS key is [projects/p/"),
        *("require_partition_filter is [true], it was [none]", "queries without a filter on the partition column fail"),
        *("primary key is [date, product_id,", "description of column [attr_value] is [What a shop measured.]"),
        "- description is [One row for each attribute.], it was [",
    )
    world.publish(world.land(8, EIGHTH))
    plans.expect(0, "nothing to do")
    world.feed = with_table(world.feed, options=before.options)
    plans.expect(2, "label [team] is [none], it was [stores]", "KMS key is [none]", "none is taken away from them")
    assert plans.show()[1].count(" is [none], it was [") == 4
    world.publish(world.land(9, NINTH))
    plans.expect(0)


def test_an_erasure_keeps_no_previous_table_which_is_no_difference(world: FeedOnStandIn, plans: Plans) -> None:
    world.feed = with_table(world.feed, keep_previous="7d")
    world.publish(world.land(7, FIRST))
    runs.erasure(world, "product_id\n1\n").finish()
    plans.expect(0, "nothing to do")


def test_the_table_of_changes_is_compared_and_what_it_would_lose_is_said(world: FeedOnStandIn, plans: Plans) -> None:
    world.publish(world.land(7, FIRST))
    world.feed = world.feed.model_copy(update={"changes": True})
    world.publish(world.land(8, [row(8, 1, 30), row(8, 2)]))
    plans.expect(0)
    declared = world.feed
    world.feed = of_column("attr_value", "NUMERIC")(declared)
    plans.expect(2, "_changes is made anew, and loses its 1 rows")
    world.feed = declared.model_copy(update={"changes_days": 30})
    plans.expect(2, "changes_days is [30], it was [60]: older changes expire")
    world.feed = declared.model_copy(update={"changes": False})
    plans.expect(2, "changes is [false], it was [true]")


def test_settings_of_engine_cdc_are_compared(world: FeedOnStandIn, plans: Plans) -> None:
    world.feed = world.feed.model_copy(update=CDC)
    world.publish(world.land(7, FIRST))
    plans.expect(0)
    staging = world.bigquery.get_table(f"warehouse.{world.feed.staging}")
    staging.max_staleness = "0-0 0 0:15:0"  # as the first publish that streams sets it
    world.bigquery.update_table(staging, ["max_staleness"])
    cdc = world.feed.cdc.model_copy(update={"max_staleness_minutes": 90})
    world.feed = world.feed.model_copy(update={"cdc": cdc})
    plans.expect(2, "max_staleness is [0-0 0 1:30:0], it was [0-0 0 0:15:0]")


def test_queries_of_the_feed_are_tried_and_new_ones_shown_with_what_they_read(
    world: FeedOnStandIn, plans: Plans
) -> None:
    world.publish(world.land(7, FIRST))
    query = plans.folder / "feeds" / world.feed.feed / "negative.sql"
    query.parent.mkdir()
    query.write_text("SELECT product_id FROM {{ staging }} WHERE attr_valu < 0")
    checks = world.feed.checks.model_copy(update={"sql": (SqlCheck(name="negative"),)})
    world.feed = world.feed.model_copy(update={"checks": checks})
    plans.expect(1, f"{PROBLEM}FAIL sql_negative: [the query fails: ")
    query.write_text("SELECT product_id FROM {{ staging }} WHERE attr_value < 0")
    plans.expect(2, "checks.sql is [sql_negative], it was []: sql_negative: the query reads 0.00 GiB")
    world.feed.read_queries(query.parent.parent)
    world.publish(world.land(8, EIGHTH))
    plans.expect(0)
    world.feed = of_column("colour", "STRING", since=9)(world.feed)
    plans.expect(2, "SQL checks were not tried")
