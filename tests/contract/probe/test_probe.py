"""The probe against the stand-in and the storage emulator: where they differ from what we assume is a list."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import Forbidden, ServiceUnavailable, TooManyRequests
from google.auth.exceptions import RefreshError
from google.cloud import storage

from dedup_clone.contract.errors import ConfigurationError
from deploy.probe.__main__ import run_probe
from deploy.probe.all_assumptions import all_assumptions, try_all
from deploy.probe.assumption import Assumption, AssumptionTest, DoesNotHold, ProbeVerdict, Result
from deploy.probe.probe_dataset import Clients, ProbeDataset, throwaway_dataset
from deploy.probe.probe_report import as_markdown
from deploy.probe.publishes import PublishedFeed, publishing
from tests.shared.stand_in_client import FINE_GRAINED_READ, OVERRIDE_TIME_TRAVEL, Control
from tests.thoroughness import NIGHT

REPOSITORY = Path(__file__).parents[3]

# What the stand-in and the emulator do otherwise than we assume of Google Cloud, and why that is accepted.
KNOWN_DIFFERENCES = {
    "materialised-view-breaks": ProbeVerdict.NOT_TRIED,  # the stand-in has no materialised views
    "no-ddl-in-transaction": ProbeVerdict.NOT_TRIED,  # nor transactions
    "clone-keeps-default-values": ProbeVerdict.NOT_TRIED,  # nor default values
    "clone-keeps-foreign-keys": ProbeVerdict.NOT_TRIED,  # nor foreign keys
    "replacement-keeps-table-access": ProbeVerdict.NOT_TRIED,  # nor IAM policies of tables
    "replacement-keeps-authorized-views": ProbeVerdict.NOT_TRIED,  # nor plain views
    "delete-as-read": ProbeVerdict.DOES_NOT_HOLD,  # fake-gcs-server deletes without looking at the precondition
}
# Those that are tried each time: of each kind some, except those that publish, and two of the known differences.
QUICK = {
    "clone-replaces",
    "clone-in-script-with-parameters",
    "clone-back",
    "time-travel-after-replace",
    "materialised-view-breaks",
    "uri-manifest",
    "job-id-once",
    "failed-load-changes-nothing",
    "truncate-drops-policies",
    "clone-carries-policies",
    "dates-without-value",
    "count-reads-nothing",
    "dry-run-returns-bytes",
    "create-if-absent",
    "delete-as-read",
    "replace-as-read",
}


@pytest.fixture(scope="module")
def probed(clients: Clients) -> tuple[list[Result], ProbeDataset]:
    tried = [a for a in all_assumptions() if NIGHT or a.name in QUICK]
    assert len(tried) >= len(QUICK)
    with throwaway_dataset(clients) as probe:
        return try_all(probe, tried), probe


def test_the_differences_from_google_cloud_are_the_known_ones(probed: tuple[list[Result], ProbeDataset]) -> None:
    results, _ = probed
    found = {r.assumption.name: r for r in results if r.verdict is not ProbeVerdict.HOLDS}
    evidence = {name: (str(r.verdict), r.evidence) for name, r in found.items()}
    known = {name: KNOWN_DIFFERENCES[name] for name in KNOWN_DIFFERENCES.keys() & {r.assumption.name for r in results}}
    assert {name: r.verdict for name, r in found.items()} == known, evidence


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", ["publish-with-row-policies", "publish-with-a-policy-tag", "clone-needs-fine-grained-reader"]
)
def test_an_account_with_the_documented_rights_publishes_tables_with_policies(name: str, clients: Clients) -> None:
    control = Control(clients.bigquery._connection.API_BASE_URL.removeprefix("http://"))
    control.grant(OVERRIDE_TIME_TRAVEL)
    control.grant(FINE_GRAINED_READ)
    with throwaway_dataset(clients) as probe:
        (result,) = try_all(probe, [a for a in all_assumptions() if a.name == name])
    control.clear_grants()
    assert (result.verdict, "This account may read" in result.evidence) == (ProbeVerdict.HOLDS, True), result.evidence


def test_nothing_is_left(probed: tuple[list[Result], ProbeDataset], clients: Clients) -> None:
    assert [d.dataset_id for d in clients.bigquery.list_datasets()] == []
    assert [b.name for b in clients.storage.list_buckets()] == []


def test_it_costs_less_than_a_dollar(probed: tuple[list[Result], ProbeDataset]) -> None:
    _, probe = probed
    assert 0 < probe.usd < 1


def test_the_report_names_all_and_what_stands_on_them(probed: tuple[list[Result], ProbeDataset]) -> None:
    results, probe = probed
    report = as_markdown(results, probe, "the stand-in", datetime(2026, 1, 1, tzinfo=UTC))
    for result in results:
        assert f"`{result.assumption.name}`" in report
        assert f"| {', '.join(result.assumption.code)} | {result.assumption.instead} |" in report
    assert report.index("Could not be tried") < report.index("## Holds")


def test_names_are_told_apart() -> None:
    names = [assumption.name for assumption in all_assumptions()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("assumption", all_assumptions(), ids=lambda assumption: assumption.name)
def test_each_names_its_test_the_code_that_relies_on_it_and_what_to_do_without(assumption: Assumption) -> None:
    assert assumption.how
    assert assumption.code
    assert [path for path in assumption.code if not (REPOSITORY / path).exists()] == []
    assert assumption.instead.endswith((".", "`"))


def test_an_assumption_that_does_not_hold_takes_no_other_down(clients: Clients) -> None:
    def fails(probe: ProbeDataset) -> str:
        raise DoesNotHold("BigQuery does something else.")

    def breaks(probe: ProbeDataset) -> str:
        raise KeyError(probe.name)

    tests: dict[str, AssumptionTest] = {"wrong": fails, "broken": breaks, "right": lambda probe: "as assumed"}
    tried = [Assumption(name, "says", "rule", ("README.md",), "set it", test) for name, test in tests.items()]
    with throwaway_dataset(clients) as probe:
        results = try_all(probe, tried)
        verdicts = [ProbeVerdict.DOES_NOT_HOLD, ProbeVerdict.NOT_TRIED, ProbeVerdict.HOLDS]
        assert [r.verdict for r in results] == verdicts
        assert "BigQuery does something else." in as_markdown(results, probe, "x", datetime.now(UTC))


def test_what_could_not_be_made_is_the_error_that_is_shown(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may make no bucket may often list none either."""

    def refuse(what: str) -> Any:
        def call(*arguments: Any, **options: Any) -> None:
            raise Forbidden(f"no right to {what} buckets")

        return call

    monkeypatch.setattr(clients.storage, "create_bucket", refuse("make"))
    monkeypatch.setattr(storage.Bucket, "list_blobs", refuse("list"))
    with pytest.raises(Forbidden, match="no right to make buckets"), throwaway_dataset(clients):
        pass
    assert [d.dataset_id for d in clients.bigquery.list_datasets()] == []


def verdict(clients: Clients, test: AssumptionTest) -> ProbeVerdict:
    with throwaway_dataset(clients) as probe:
        (result,) = try_all(probe, [Assumption("one", "says", "rule", ("README.md",), "set it", test)])
    return result.verdict


@pytest.mark.parametrize("error", [ServiceUnavailable("busy"), TooManyRequests("quota"), RefreshError("no login")])
def test_a_publish_without_a_service_or_a_login_has_no_verdict(clients: Clients, error: Exception) -> None:
    def stops(probe: ProbeDataset, feed: PublishedFeed) -> str:
        raise error

    assert verdict(clients, publishing(stops)) is ProbeVerdict.NOT_TRIED


def test_a_refused_right_does_not_prove_that_a_uri_is_refused(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise Forbidden("no right to load")

    (assumption,) = [a for a in all_assumptions() if a.name == "uri-without-generation"]
    assert verdict(clients, assumption.test) is ProbeVerdict.HOLDS
    monkeypatch.setattr(ProbeDataset, "load_uris", refuse)
    assert verdict(clients, assumption.test) is ProbeVerdict.NOT_TRIED


def test_a_missing_login_is_no_fault_of_the_test(clients: Clients) -> None:
    def stops(probe: ProbeDataset) -> str:
        raise RefreshError("no login")

    with throwaway_dataset(clients) as probe:
        (result,) = try_all(probe, [Assumption("one", "says", "rule", ("README.md",), "set it", stops)])
    assert result.evidence.startswith("RefreshError: ")


def test_a_query_in_a_publish_is_billed_once(clients: Clients) -> None:
    billed = []

    def asks(probe: ProbeDataset, feed: PublishedFeed) -> str:
        table = probe.new_table("billed", [(probe.today, 1, 1)])
        billed.append(probe.query(f"SELECT number FROM `{table}`").total_bytes_billed)
        return ""

    with throwaway_dataset(clients) as probe:
        publishing(asks)(probe)
        assert 0 < probe.billed_bytes == sum(billed)


def test_what_needs_a_policy_tag_is_not_tried_without_one(clients: Clients) -> None:
    names = ("publish-with-a-policy-tag", "clone-needs-fine-grained-reader")
    with throwaway_dataset(replace(clients, policy_tag=None)) as probe:
        results = try_all(probe, [a for a in all_assumptions() if a.name in names])
    assert [r.verdict for r in results] == [ProbeVerdict.NOT_TRIED] * len(names)


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_spent(clients: Clients, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be written to .*/none/report\.md"):
        run_probe(clients, tmp_path / "none" / "report.md")
    assert [d.dataset_id for d in clients.bigquery.list_datasets()] == []


def test_a_probe_that_dies_cleans_up(clients: Clients) -> None:
    def interrupted() -> None:
        with throwaway_dataset(clients) as probe:
            probe.new_table("left", [(probe.today, 1, 1)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [d.dataset_id for d in clients.bigquery.list_datasets()] == []
