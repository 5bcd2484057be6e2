"""One check of all feeds: shared clients, and a feed that cannot be checked stops no other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.observability import stats
from google.api_core.exceptions import Forbidden, ServiceUnavailable
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import FeedsNotChecked
from dedup_clone.freshness.incident import read_incident_records
from dedup_clone.freshness.verdict import FreshnessStatus, FreshnessVerdict
from dedup_clone.orchestration.setup import DeployedFolders, find_folders
from dedup_clone.orchestration.watchdog import all_feeds, feed_check
from dedup_clone.orchestration.watchdog.all_feeds import check_all_feeds
from dedup_clone.publish.services import Clients
from dedup_clone.settings.deployment import AlertSettings, NotifierSettings, read_deployment
from dedup_clone.state.current import CurrentFile, Retirement, TargetAction
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse
from testkit.airflow import TaskApi
from testkit.feed_on_stand_in import REPOSITORY, SQL
from testkit.server_clients import open_clients

AWAY = ServiceUnavailable("away")  # type: ignore[no-untyped-call]  # Google's clients leave it untyped
FEEDS = [f"crowd_{number}" for number in range(12)]


class Deployed:
    """Feed files of several feeds. `opened`, `views_read`: how often clients were opened, and views read."""

    def __init__(self, folder: Path, clients: tuple[Storage, BigQuery], monkeypatch: pytest.MonkeyPatch) -> None:
        dags = folder / "dags"
        (dags / "feeds").mkdir(parents=True)
        (dags / "sql").symlink_to(SQL)
        (dags / "profiles").symlink_to(REPOSITORY / "dags" / "profiles")
        shipped = (REPOSITORY / "dags" / "feeds" / "worked_example.yaml").read_text()
        for feed in FEEDS:
            (dags / "feeds" / f"{feed}.yaml").write_text(shipped.replace("worked_example", feed))
        self.folders: DeployedFolders = find_folders(dags)
        self.opened = self.views_read = 0
        self.storage, self.bigquery = clients
        self.gauges: dict[str, float] = {}
        monkeypatch.setattr(stats, "gauge", lambda name, value, **_: self.gauges.update({name: value}))
        monkeypatch.setenv("DEDUP_CLONE_PROFILE", "local")
        monkeypatch.setattr(all_feeds, "open_clients", self.open_clients)
        self.airflow = TaskApi(monkeypatch)
        monkeypatch.setattr("dedup_clone.warehouse.bigquery.read_materialized_views", self.read_views)

    def keep(self, *feeds: str) -> None:
        """Delete the files of all other feeds."""
        for path in self.folders.feed_files:
            if path.stem not in feeds:
                path.unlink()

    def open_clients(self, deployment: Any, sql_folder: Path) -> Clients:
        self.opened += 1
        warehouse = Warehouse(
            self.bigquery, project="local-dev", dataset="warehouse", location="US", sql_folder=sql_folder
        )
        state, landing = ObjectStore(self.storage, "state"), ObjectStore(self.storage, "landing")
        return Clients(state, landing, warehouse, job_poll_s=0.02)

    def read_views(self, client: Any, project: str, location: str) -> dict[str, str]:
        self.views_read += 1
        return {}

    def verdict(self, feed: str) -> FreshnessVerdict:
        verdict = ObjectStore(self.storage, "state").read_record(FreshnessVerdict, FeedLayout(feed).freshness)
        assert verdict is not None
        return verdict


def titles(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage().splitlines()[0] for r in caplog.records if r.name == "dedup_clone.alerts"]


@pytest.fixture(scope="module", name="clients")
def own_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Storage, BigQuery]]:
    """Those of servers without other feeds, whose ledger rows may wait."""
    with open_clients(tmp_path_factory.mktemp("servers")) as own:
        yield own


@pytest.fixture
def deployed(tmp_path: Path, clients: tuple[Storage, BigQuery], monkeypatch: pytest.MonkeyPatch) -> Deployed:
    return Deployed(tmp_path, clients, monkeypatch)


def test_all_feeds_share_clients_and_one_list_of_views(deployed: Deployed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    deployed.airflow.paused = {"crowd_3_watch"}
    assert check_all_feeds(deployed.folders) == {"crowd_3": ["stopped-watch_paused"]}
    assert (deployed.opened, deployed.views_read) == (1, 1)
    assert all(deployed.verdict(feed) for feed in FEEDS)
    assert deployed.gauges["dedup_clone.feeds_checked"] == 12
    lines = [r.message.split()[1] for r in caplog.records if r.message.startswith("dedup_clone_gauges ")]
    assert sorted(lines) == sorted([f"feed={feed}" for feed in FEEDS] + ["feeds_checked=12"])


def test_a_feed_that_cannot_be_checked_stops_no_other_and_is_named(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (deployed.folders.feeds / "crowd_5.yaml").write_text("feed: crowd_5\n")
    checked: list[str] = []
    check_feed = feed_check.check_feed

    def check(setup: Any, clients: Any) -> list[str]:
        if setup.feed.feed == "crowd_7":
            raise ConnectionResetError("no route")
        checked.append(setup.feed.feed)
        return check_feed(setup, clients)

    monkeypatch.setattr(all_feeds, "check_feed", check)
    with pytest.raises(FeedsNotChecked, match=r"^1 of 12 feeds(?s:.*)\[crowd_7\] no route"):
        check_all_feeds(deployed.folders)
    assert sorted(checked) == sorted(set(FEEDS) - {"crowd_5", "crowd_7"})
    assert deployed.gauges["dedup_clone.feeds_checked"] == 11


def test_a_feed_that_cannot_be_checked_for_a_while_is_an_incident_until_it_can(
    deployed: Deployed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
    deployed.keep("crowd_1", "crowd_2")
    check_all_feeds(deployed.folders)
    store, name = ObjectStore(deployed.storage, "state"), FeedLayout("crowd_2").current
    store.put(name, "{")
    alerts: list[list[str]] = []
    for minutes in (1, 20, 21):
        caplog.clear()
        now = datetime.now(UTC) + timedelta(minutes=minutes)
        monkeypatch.setattr(all_feeds, "utc_now", Mock(return_value=now))
        with pytest.raises(FeedsNotChecked, match=r"^1 of (?s:.*)\[crowd_2\]"):
            check_all_feeds(deployed.folders)
        alerts.append([title for title in titles(caplog) if title.startswith("[crowd_2]")])
    assert alerts == [[], ["[crowd_2] ALERT: reporting-not_checked"], []]
    (incident,) = read_incident_records(store, "crowd_2").open
    assert incident.dag_id == "freshness_watchdog"  # whose log has the error
    store.delete_prefix(name)
    caplog.clear()
    assert check_all_feeds(deployed.folders) == {}
    assert "[crowd_2] RECOVERED: reporting-not_checked" in caplog.text


def test_a_feed_that_could_never_be_checked_has_a_verdict_that_says_why(
    deployed: Deployed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
    (deployed.folders.feeds / "never.yaml").write_text(
        (deployed.folders.feeds / "crowd_1.yaml").read_text().replace("crowd_1", "never")
    )
    deployed.keep("never")
    store, name = ObjectStore(deployed.storage, "state"), FeedLayout("never").current
    store.put(name, "{")
    for alerts in (["[never] ALERT: reporting-not_checked"], []):
        caplog.clear()
        with pytest.raises(FeedsNotChecked):
            check_all_feeds(deployed.folders)
        assert titles(caplog) == alerts
    verdict = deployed.verdict("never")
    assert (verdict.status, [i.name for i in verdict.incidents]) == (FreshnessStatus.UNKNOWN, ["reporting-not_checked"])
    assert verdict.incidents[0].since < verdict.checked_at
    for lost in (name, FeedLayout("never").freshness, FeedLayout("never").incidents):
        store.delete_prefix(lost)


def test_without_bigquery_feeds_are_checked_and_without_state_nothing_says_that_they_were(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed.keep("crowd_3", "crowd_4")
    with monkeypatch.context() as outage:
        outage.setattr("dedup_clone.warehouse.bigquery.read_materialized_views", Mock(side_effect=AWAY))
        outage.setattr(Warehouse, "table", Mock(side_effect=AssertionError("asked all the same")))
        deployed.airflow.paused = {"crowd_3_watch"}
        assert check_all_feeds(deployed.folders) == {"crowd_3": ["stopped-watch_paused"]}
    deployed.gauges.clear()
    monkeypatch.setattr(all_feeds, "check_feed", Mock(side_effect=AWAY))
    with pytest.raises(FeedsNotChecked, match="2 of 2 feeds"):
        check_all_feeds(deployed.folders)
    assert deployed.gauges == {}


def test_each_feed_is_reported_while_bigquery_refuses_what_all_checks_need(
    deployed: Deployed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the account has lost its roles: without any check, nobody would be told of anything."""
    caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
    deployed.keep("crowd_3", "crowd_4")
    assert check_all_feeds(deployed.folders) == {}
    denied = Forbidden("no", errors=[{"reason": "accessDenied"}])  # type: ignore[no-untyped-call]
    with monkeypatch.context() as refusal:
        refusal.setattr("dedup_clone.warehouse.bigquery.read_materialized_views", Mock(side_effect=denied))
        refusal.setattr(all_feeds, "utc_now", lambda: datetime.now(UTC) + timedelta(minutes=20))
        with pytest.raises(FeedsNotChecked, match=r"^2 of "):
            check_all_feeds(deployed.folders)
    alerts = [f"[crowd_{n}] ALERT: reporting-not_checked" for n in (3, 4)]
    assert sorted(title for title in titles(caplog) if "ALERT" in title) == alerts
    caplog.clear()
    assert check_all_feeds(deployed.folders) == {}
    assert sorted(titles(caplog)) == [f"[crowd_{n}] RECOVERED: reporting-not_checked" for n in (3, 4)]


def test_a_feed_that_its_environment_does_not_check_is_reported_by_another(
    deployed: Deployed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an environment got another name: it takes its own feeds for those of another, and publishes nothing."""
    caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
    deployed.keep("crowd_0")
    assert check_all_feeds(deployed.folders) == {}
    store = ObjectStore(deployed.storage, "state")
    current, now = CurrentFile(store, "crowd_0"), datetime.now(UTC)
    intent = current.acquire_lease("former.example.org", None, Kind.PUBLISH, dag_id="publish", run_id="1", now=now)
    current.release(intent.attempt)
    alerts: list[list[str]] = []
    for minutes in (1, 20, 25):
        monkeypatch.setattr(all_feeds, "utc_now", Mock(return_value=now + timedelta(minutes=minutes)))
        caplog.clear()
        assert check_all_feeds(deployed.folders) == {}
        alerts.append([title for title in titles(caplog) if title.startswith("[crowd_0]")])
    assert alerts == [[], ["[crowd_0] ALERT: reporting-not_checked"], []]
    (incident,) = deployed.verdict("crowd_0").incidents
    assert "move-feed crowd_0 --from former.example.org --to tests" in incident.what
    store.delete_prefix(FeedLayout("crowd_0").current)
    assert check_all_feeds(deployed.folders) == {}
    assert "[crowd_0] RECOVERED: reporting-not_checked" in caplog.text


def test_a_feed_that_was_never_published_is_forgotten_without_its_file(
    deployed: Deployed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file was renamed, or was a copy by mistake: nothing can end its incidents and its place on the page."""
    caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
    (deployed.folders.feeds / "misnamed.yaml").write_text("feed: another\n")
    deployed.keep("crowd_6", "misnamed")
    assert check_all_feeds(deployed.folders) == {"misnamed": ["stopped-feed_file_invalid"]}
    deployed.keep("crowd_6")
    caplog.clear()
    assert check_all_feeds(deployed.folders) == {}
    assert titles(caplog) == [], "another environment may have the file"
    monkeypatch.setattr(all_feeds, "utc_now", lambda: datetime.now(UTC) + timedelta(hours=23))
    assert check_all_feeds(deployed.folders) == {}
    assert "[misnamed] RECOVERED: stopped-feed_file_invalid" not in titles(caplog), "its Airflow may be down"
    monkeypatch.setattr(all_feeds, "utc_now", lambda: datetime.now(UTC) + timedelta(hours=26))
    assert check_all_feeds(deployed.folders) == {}
    assert "[misnamed] RECOVERED: stopped-feed_file_invalid" in titles(caplog)
    store, layout = ObjectStore(deployed.storage, "state"), FeedLayout("misnamed")
    assert [store.read(name) for name in (layout.freshness, layout.incidents)] == [None, None]


def test_the_invalid_file_of_a_retired_feed_is_no_incident(
    deployed: Deployed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
    deployed.keep("crowd_8")
    current = CurrentFile(ObjectStore(deployed.storage, "state"), "former_feed")
    now = datetime.now(UTC)
    intent = current.acquire_lease("tests", None, Kind.RETIRE, dag_id="retire", run_id="run", now=now)
    current.retire(intent.attempt, Retirement(now, "run", "a test", TargetAction.KEEP, intent.attempt, None))
    (deployed.folders.feeds / "former_feed.yaml").write_text("feed: former_feed\n")
    assert check_all_feeds(deployed.folders) == {}
    assert "feed_file_invalid" not in caplog.text
    assert not list(deployed.storage.list_blobs("state", prefix=FeedLayout("former_feed").freshness))


def test_an_invalid_feed_file_is_an_incident_until_it_is_corrected(
    deployed: Deployed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
    path = deployed.folders.feeds / "crowd_9.yaml"
    valid = path.read_text()
    deployed.airflow.paused = {"crowd_9_watch"}
    assert check_all_feeds(deployed.folders) == {"crowd_9": ["stopped-watch_paused"]}
    deployed.airflow.paused = set()
    path.write_text("feed: crowd_9\n")
    alerts: list[list[str]] = []
    for _ in range(2):
        caplog.clear()
        assert check_all_feeds(deployed.folders) == {"crowd_9": ["stopped-feed_file_invalid", "stopped-watch_paused"]}
        alerts.append(titles(caplog))
    assert alerts == [["[crowd_9] ALERT: stopped-feed_file_invalid"], []]
    verdict = deployed.verdict("crowd_9")
    assert verdict.status is FreshnessStatus.STOPPED
    assert verdict.headline == "Readers see no table yet: nothing was published."
    incident, still_open = verdict.incidents
    assert "crowd_9.yaml:1: [description]" in incident.what
    assert still_open.name == "stopped-watch_paused"
    assert incident.since < verdict.checked_at
    path.write_text(valid)
    caplog.clear()
    assert check_all_feeds(deployed.folders) == {}
    assert "[crowd_9] RECOVERED: stopped-feed_file_invalid" in caplog.text
    assert deployed.verdict("crowd_9").status is FreshnessStatus.EMPTY


def test_a_feed_whose_alert_was_not_sent_counts_as_checked_and_fails_the_task(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = AlertSettings(notifiers=(NotifierSettings(class_path="nowhere.Notifier"),))
    shipped = read_deployment(deployed.folders.profiles).model_copy(update={"alerts": broken})
    monkeypatch.setattr(all_feeds, "read_deployment", lambda profiles: shipped)
    deployed.keep("crowd_1")
    (deployed.folders.feeds / "crowd_10.yaml").write_text("feed: crowd_10\n")
    deployed.airflow.paused = {"crowd_1_watch"}
    with pytest.raises(FeedsNotChecked, match=r"^0 of 2 feeds(?s:.*)nowhere\.Notifier"):
        check_all_feeds(deployed.folders)
    assert deployed.gauges["dedup_clone.feeds_checked"] == 2


def test_a_missing_feed_file_is_an_incident_until_it_is_back(
    deployed: Deployed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that has the lease loses its tasks: Airflow ends it, or leaves it running for ever."""
    caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
    deployed.keep("crowd_10", "crowd_11")
    path = deployed.folders.feeds / "crowd_11.yaml"
    valid = path.read_text()
    assert check_all_feeds(deployed.folders) == {}
    path.unlink()
    assert check_all_feeds(deployed.folders) == {}, "it was never published"
    path.write_text(valid)
    store = ObjectStore(deployed.storage, "state")
    run: dict[str, Any] = {"dag_id": "crowd_11_publish", "run_id": "publish__7__1"}
    current = CurrentFile(store, "crowd_11")
    current.acquire_lease("tests", current.read().generation, Kind.PUBLISH, **run, now=datetime.now(UTC))
    deployed.airflow.add_run(**run)
    assert check_all_feeds(deployed.folders) == {}
    path.unlink()
    for alerts in (["[crowd_11] ALERT: stopped-feed_file_invalid"], []):
        caplog.clear()
        assert check_all_feeds(deployed.folders) == {"crowd_11": ["stopped-feed_file_invalid"]}
        sent = [r.getMessage() for r in caplog.records if r.name == "dedup_clone.alerts"]
        assert [text.splitlines()[0] for text in sent] == alerts
        assert all("Run [publish__7__1] has the lease, and cannot go on." in text for text in sent)
    assert deployed.verdict("crowd_11").status is FreshnessStatus.STOPPED
    path.write_text(valid)
    caplog.clear()
    assert check_all_feeds(deployed.folders) == {}
    assert "[crowd_11] RECOVERED: stopped-feed_file_invalid" in caplog.text
