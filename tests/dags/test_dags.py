"""The graph of each DAG as a golden file, and rules that hold for any graph."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.exceptions import ParamValidationError
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.state import TaskInstanceState
from jsonschema import Draft202012Validator, FormatChecker

from dedup_clone import page
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration import content_audit
from dedup_clone.orchestration.setup import FeedOfForm, find_folders
from testkit.airflow import dag_run
from tests.dags.conftest import DAGS, FEED, FEEDS, OF_ALL_FEEDS, OF_EACH_FEED, OPERATIONS, change_yaml, copy_dags
from tests.golden_files import assert_golden, assert_no_other_golden

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

DAG_IDS = sorted([*OF_ALL_FEEDS, *(f"{feed}_{dag}" for feed in FEEDS for dag in OF_EACH_FEED)])


def test_each_feed_has_its_dags(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert [d.dag_id for d in bag.dags.values() if "configuration error" in d.tags] == []
    assert sorted(bag.dags) == DAG_IDS


def test_dags_survive_serialization(bag: DagBag) -> None:
    for dag in bag.dags.values():
        again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert sorted(again.task_dict) == sorted(dag.task_dict)


def parsed(dags: Path) -> DagBag:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(dags))
    assert not bag.import_errors
    return bag


def test_a_bad_feed_file_shows_its_own_error_and_takes_no_other_feed_down(tmp_path: Path) -> None:
    dags = copy_dags(tmp_path)
    bad = dags / "feeds" / f"{FEED}.yaml"
    bad.write_text(bad.read_text().replace("retention_days", "retention_day"))
    found = parsed(dags).dags
    assert sorted(found) == DAG_IDS
    with_error = {dag_id for dag_id, dag in found.items() if "configuration error" in dag.tags}
    assert with_error == {f"{FEED}_{dag}" for dag in OF_EACH_FEED}
    for dag_id in with_error:
        assert "unknown key [table.retention_day]" in (found[dag_id].doc_md or "")
        assert "unknown key [table.retention_day]" in (found[dag_id].description or "")


def test_a_feed_file_of_another_suffix_says_how_to_name_it(tmp_path: Path) -> None:
    dags = copy_dags(tmp_path)
    file = dags / "feeds" / f"{FEED}.yaml"
    file.rename(file.with_suffix(".yml"))
    (dags / "feeds" / f"{FEEDS[-1]}.yml").write_text("")
    found = parsed(dags).dags
    assert sorted(found) == DAG_IDS
    assert f"is not read: rename it to [{FEED}.yaml]" in (found[f"{FEED}_publish"].doc_md or "")
    assert "configuration error" not in found[f"{FEEDS[-1]}_publish"].tags


@pytest.mark.parametrize("name", [f"{FEED} (copy)", f"Backup of {FEED}", "Größen"])
def test_a_file_whose_name_airflow_takes_for_no_dag_takes_no_feed_down(tmp_path: Path, name: str) -> None:
    dags = copy_dags(tmp_path)
    shutil.copy(dags / "feeds" / f"{FEED}.yaml", dags / "feeds" / f"{name}.yaml")
    found = parsed(dags).dags
    shown = {dag_id: dag for dag_id, dag in found.items() if "configuration error" in dag.tags}
    assert found.keys() - shown.keys() == set(DAG_IDS)
    assert len(shown) == len(OF_EACH_FEED)
    assert all(f"{name}.yaml" in dag.doc_md for dag in shown.values())


def test_the_dag_of_a_bad_feed_file_is_not_paused_once_the_file_is_good(tmp_path: Path, bag: DagBag) -> None:
    """Airflow pauses new DAGs by default, and leaves a DAG that it knows as it is."""
    dags = copy_dags(tmp_path)
    (dags / "feeds" / f"{FEED}.yaml").write_text("")
    for found in (bag.dags, parsed(dags).dags):
        assert {dag_id for dag_id, dag in found.items() if dag.is_paused_upon_creation is not False} == set()


def test_bad_feed_files_change_no_task_of_the_watchdog(tmp_path: Path) -> None:
    dags = copy_dags(tmp_path)
    for feed in FEEDS:
        (dags / "feeds" / f"{feed}.yaml").write_text(f"feed: {feed}\n")
    tasks = {task.task_id: task.owner for task in parsed(dags).dags["freshness_watchdog"].tasks}
    assert tasks == {"check_feeds": "dedup-clone", "write_reporting_tables": "dedup-clone"}


PAGE = Path(page.__file__).parent / "static"


def structure(dag: Any) -> dict[str, Any]:
    return {
        "max_active_runs": dag.max_active_runs,
        "params": sorted(dag.params),
        "tags": sorted(dag.tags),
        "tasks": {
            task.task_id: {
                "operator": type(task).__name__,
                "downstream": sorted(task.downstream_task_ids),
                "retries": task.retries,
                "trigger_rule": str(task.trigger_rule),
            }
            for task in dag.topological_sort()
        },
    }


@pytest.mark.parametrize("dag_id", [*(f"{FEED}_{dag_name}" for dag_name in OF_EACH_FEED), *OF_ALL_FEEDS])
def test_structure(bag: DagBag, dag_id: str) -> None:
    assert_golden(f"dags/{dag_id}.json", json.dumps(structure(bag.dags[dag_id]), indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("feed", FEEDS[1:])
@pytest.mark.parametrize("dag_name", OF_EACH_FEED)
def test_the_dags_of_feeds_differ_in_the_name_alone(bag: DagBag, feed: str, dag_name: str) -> None:
    first, other = structure(bag.dags[f"{FEED}_{dag_name}"]), structure(bag.dags[f"{feed}_{dag_name}"])
    assert other.pop("tags") == sorted({*first.pop("tags"), feed} - {FEED})
    assert other == first


def test_the_page_knows_the_dags_of_a_feed_whose_approvals_it_shows() -> None:
    suffixes = re.search(r"const DAG_SUFFIXES = (\[.*?\]);", (PAGE / "page.js").read_text(encoding="utf-8"))
    assert suffixes
    assert {suffix.removeprefix("_") for suffix in json.loads(suffixes[1])} == set(OF_EACH_FEED)


def test_a_run_in_which_a_task_failed_has_failed_though_the_failure_was_reconciled(bag: DagBag) -> None:
    """Airflow takes a run's state from its last tasks: behind every task is one that runs only after its success."""
    dags = [dag for dag in bag.dags.values() if dag.has_task("reconcile_failure")]
    assert len(dags) == 2 * len(FEEDS) + 3
    for dag in dags:
        last = {task.task_id for task in dag.leaves} - {"reconcile_failure"}
        for task in dag.tasks:
            behind = {task.task_id, *task.get_flat_relative_ids(upstream=False)}
            assert task.task_id == "reconcile_failure" or behind & last, f"{dag.dag_id}.{task.task_id}"


def test_airflows_lineage_leads_from_landing_to_target(bag: DagBag) -> None:
    """Landing is no Asset: Airflow would fail the commit if somebody else's Asset had its URI and another name."""
    commit = bag.dags["store_visits_publish"].get_task("commit_generation")
    found = ExtractorManager().extract_metadata(dag_run("publish", "run"), commit, TaskInstanceState.SUCCESS, None)
    assert not [each for each in commit.inlets if isinstance(each, Asset)]
    assert [(each.namespace, each.name) for each in found.inputs] == [("gs://landing", "stores/visits")]
    assert [(each.namespace, each.name) for each in found.outputs] == [("bigquery", "local-dev.warehouse.store_visits")]


def test_the_audit_runs_daily_for_all_feeds_that_do_not_switch_it_off(
    bag: DagBag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = bag.dags["dedup_clone_content_audit"]
    assert (dag.schedule, dag.catchup, dag.start_date) == ("15 4 * * *", False, None)  # no missed slot is run
    dags = copy_dags(tmp_path)
    change_yaml(dags / f"feeds/{FEED}.yaml", content_audit={"enabled": False})
    change_yaml(dags / f"feeds/{FEEDS[1]}.yaml", no_such_key=1)
    setup = FeedOfForm(find_folders(dags))

    def chosen(**form: Any) -> list[str]:
        context: Any = {"params": {"feed": None, "date": None, **form}}
        return content_audit.choose_feeds(setup, context)

    assert chosen() == FEEDS[2:]
    assert chosen(feed=FEED, date="2026-06-15") == [FEED]
    with pytest.raises(ConfigurationError, match=r"parameter \[feed\]"):
        chosen(date="2026-06-15")


def test_airflow_takes_no_backfill_of_what_only_the_present_needs_nor_a_second_watch(bag: DagBag) -> None:
    """Before there is a run: airflow.models.backfill, and airflow.api.common.trigger_dag."""
    scheduled = [DagSerialization.from_dict(DagSerialization.to_dict(dag)) for dag in bag.dags.values() if dag.schedule]
    by_hand = {"scheduled", "manual"}
    assert {dag.dag_id: {kind.value for kind in dag.allowed_run_types or ()} for dag in scheduled} == {
        "dedup_clone_content_audit": by_hand,
        "freshness_watchdog": by_hand,
        **{f"{feed}_watch": {"scheduled"} for feed in FEEDS},
    }


def test_each_form_opens_without_null_and_marks_what_must_be_filled_in(bag: DagBag) -> None:
    """Airflow marks a field as required, and starts no run while it is empty, unless its type may be null.

    It sends null for an emptied field, and shows null in a number or a date as empty, else as `values_display` says.
    """
    required = {}
    for dag_id, dag in bag.dags.items():
        for name, param in dag.params.items():
            schema, value, where = param.schema, param.value, f"{dag_id}.{name}"
            types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
            assert schema["title"], where
            assert param.description, where
            shown = schema.get("values_display", {}).get("null") or "integer" in types or schema.get("format") == "date"
            assert value is not None or shown, where
            assert ("array" in types) == isinstance(value, list), where
            validator = Draft202012Validator(schema, format_checker=FormatChecker())
            valid = validator.is_valid(value)
            assert valid or "null" not in types, f"{where} must be filled in, and is not marked"
            assert value or not valid or "null" in types, f"{where} may stay empty, and is marked"
            assert validator.is_valid(None) == ("null" in types), f"{where} cannot be emptied"
            assert "required" not in schema["title"], f"{where}: Airflow marks what it enforces"
            if not valid:
                required.setdefault(dag_id, []).append(name)
    assert {dag: fields for dag, fields in required.items() if not dag.startswith(tuple(FEEDS[1:]))} == {
        f"{FEED}_publish": ["reason"],
        f"{FEED}_rollback": ["generation", "reason"],
        "dedup_clone_bootstrap": ["feed", "reason"],
        "dedup_clone_erase": ["feed", "keys_file", "reason"],
        "dedup_clone_rebuild": ["feed", "reason"],
        "dedup_clone_retire": ["feed", "reason"],
    }


BY_HAND = [f"{FEED}_publish", f"{FEED}_rollback", *(f"dedup_clone_{name}" for name in OPERATIONS)]


@pytest.mark.parametrize("dag_id", BY_HAND)
def test_airflow_starts_no_run_without_a_reason(bag: DagBag, dag_id: str) -> None:
    """Form, API and command line validate so: SerializedDAG.create_dagrun, before there is a run."""
    form = DagSerialization.from_dict(DagSerialization.to_dict(bag.dags[dag_id])).params
    filled = {"feed": FEED, "snapshot_id": "7", "generation": 1, "keys_file": "keys.csv"}
    filled = {name: value for name, value in filled.items() if name in form}
    assert form.deep_merge({**filled, "reason": " prices were reset"}).validate()["reason"] == " prices were reset"
    for missing in ({}, {"reason": ""}, {"reason": "  \t"}, {"reason": None}):
        with pytest.raises(ParamValidationError):
            form.deep_merge({**filled, **missing}).validate()


@pytest.mark.parametrize("name", OPERATIONS)
def test_airflow_starts_no_run_for_an_unknown_feed_or_none(bag: DagBag, name: str) -> None:
    form = DagSerialization.from_dict(DagSerialization.to_dict(bag.dags[f"dedup_clone_{name}"])).params
    filled = {field: value for field, value in {"keys_file": "keys.csv", "reason": "why"}.items() if field in form}
    assert form.deep_merge({**filled, "feed": FEED}).validate()["feed"] == FEED
    for feed in ("", None, "absent"):
        with pytest.raises(ParamValidationError):
            form.deep_merge({**filled, "feed": feed}).validate()


def test_an_approval_that_nobody_answers_in_time_fails_without_a_retry_which_a_lost_worker_has(bag: DagBag) -> None:
    approvals = [task for dag in bag.dags.values() for task in dag.tasks if isinstance(task, ApprovalOperator)]
    assert len(approvals) == 2 * len(FEEDS) + len(OPERATIONS)
    for task in approvals:
        assert task.retries, task
        with pytest.raises(AirflowFailException, match="Nobody answered in time"):
            task.execute_complete({}, {"error": "The timeout has passed", "error_type": "timeout"})


def test_no_task_that_changes_or_audits_a_table_repeats_what_no_retry_can_help(bag: DagBag) -> None:
    without = {dag_id for dag_id, dag in bag.dags.items() for task in dag.tasks if task.retry_policy is None}
    assert without == {"freshness_watchdog", *(f"{feed}_watch" for feed in FEEDS)}


def test_every_task_has_a_time_limit_and_an_owner(bag: DagBag) -> None:
    without = [
        f"{dag.dag_id}.{task.task_id}"
        for dag in bag.dags.values()
        for task in dag.tasks
        # the sensor waits, deferred, for as long as it takes; its trigger has a limit of its own
        if (not task.execution_timeout and task.task_id != "notice_delivery") or task.owner == "airflow"
    ]
    assert without == []


def test_no_golden_file_is_orphaned(bag: DagBag) -> None:
    assert_no_other_golden("dags", {f"{dag_id}.json" for dag_id in bag.dags if not dag_id.startswith(tuple(FEEDS[1:]))})


def test_the_production_profile_has_the_same_tasks_and_edges(monkeypatch: pytest.MonkeyPatch, bag: DagBag) -> None:
    monkeypatch.setenv("DEDUP_CLONE_PROFILE", "gcp")
    production = parsed(DAGS).dags
    assert {dag_id: structure(dag) for dag_id, dag in production.items()} == {
        dag_id: structure(dag) for dag_id, dag in bag.dags.items()
    }


def test_a_feed_whose_runner_the_profile_cannot_serve_shows_what_is_missing(tmp_path: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    change_yaml(copy_dags(tmp_path) / f"feeds/{FEED}.yaml", runner="serverless")
    dags = DagBag(str(tmp_path / "dags")).dags
    assert dags[f"{FEED}_publish"].task_ids == ["show_configuration_error"]
    assert "asks for runner [serverless], which needs [spark.region] in the profile" in dags[f"{FEED}_publish"].doc_md
    assert [feed for feed in FEEDS if "configuration error" in dags[f"{feed}_publish"].tags] == [FEED]
