"""What a commit reports of target in Airflow: the asset, and its event."""

from __future__ import annotations

from dedup_clone.checks.check_result import CheckResult, CheckResults, Level
from dedup_clone.contract.table import ColumnMode
from dedup_clone.orchestration.publish.target_asset import event_extra, target_asset
from dedup_clone.settings.table_settings import ColumnSettings
from testkit.feed_on_stand_in import FeedOnStandIn, row
from tests.contract.feed_setups import setup_of


def test_the_asset_has_the_schema_and_the_keys_of_the_table(world: FeedOnStandIn) -> None:
    asset = target_asset(setup_of(world))
    assert asset.uri.endswith(f"/warehouse/{world.feed.target}")
    assert asset.extra["keys"] == list(world.feed.table.keys)
    assert [column["name"] for column in asset.extra["schema"]] == [c.name for c in world.feed.table.columns]
    assert asset.extra["links"]["table"].startswith("https://console.cloud.google.com/bigquery?p=local-dev&d=warehouse")


def test_the_schema_of_the_asset_has_the_fields_of_a_struct(world: FeedOnStandIn) -> None:
    fields = (ColumnSettings(name="a", type="INT64"), ColumnSettings(name="b", type="STRING", mode=ColumnMode.REPEATED))
    columns = (*world.feed.table.columns, ColumnSettings(name="s", type="STRUCT", fields=fields))
    table = world.feed.table.model_copy(update={"columns": columns})
    world.feed = world.feed.model_copy(update={"table": table})
    assert target_asset(setup_of(world)).extra["schema"][-1] == {
        "name": "s",
        "type": "STRUCT",
        "mode": "NULLABLE",
        "fields": [
            {"name": "a", "type": "INT64", "mode": "NULLABLE"},
            {"name": "b", "type": "STRING", "mode": "REPEATED"},
        ],
    }


def test_the_event_of_a_commit_has_snapshot_rows_checks_and_links(world: FeedOnStandIn) -> None:
    record = world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    checks = [
        CheckResults("before", (CheckResult("a", Level.PASS, "1", "1"), CheckResult("b", Level.WARN, "1", "2"))),
        CheckResults("after", (CheckResult("c", Level.PASS, "1", "1"),)),
    ]
    extra = event_extra(setup_of(world), record, checks)
    assert (extra["snapshot_id"], extra["generation"], extra["rows"]) == (7, 1, 2)
    assert extra["checks"] == {"pass": 2, "warn": 1, "fail": 0, "not_passed": ["b"]}
    assert extra["links"]["run"].endswith(f"/dags/{record.dag_id}/runs/{record.run_id}")
    for kind in ("ledger", "manifest"):
        bucket, _, name = extra["links"][kind].removeprefix("gs://").partition("/")
        assert world.storage.bucket(bucket).blob(name).exists()
