"""A server that breaks an assumption is found by the test of that assumption: each line of the table breaks one."""

from __future__ import annotations

from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest

from dedup_clone.warehouse.policies import READ_PAST
from deploy.probe.all_assumptions import all_assumptions, try_all
from deploy.probe.assumption import ProbeVerdict
from deploy.probe.probe_dataset import BudgetSpent, Clients, ProbeDataset, throwaway_dataset
from tests.contract.probe.broken_session import BrokenSession
from tests.contract.probe.server_changes import (
    Change,
    address,
    answer,
    clone,
    disposition,
    expiration,
    fresh_job_ids,
    job,
    keeps_replaced_policies,
    of_exports,
    patched,
    permissions,
    query_statistics,
    refused,
    repeated_job_ids,
    rewritten,
    selected,
    shown_rows,
    sql,
    statistics,
    still_required,
    target,
    together,
    truncating,
    untagged,
    uploaded,
    uris,
    whole_table,
    without,
    without_decorator,
    without_default_values,
    without_enums,
    without_parameters,
    without_table_access,
)

OPTIONS = "OPTIONS (description = 'copied', labels = [('a', 'b')], partition_expiration_days = 730)"
PRESENT = sql(r" FOR SYSTEM_TIME AS OF @\w+", "")
DROP_FIRST = sql(r"CREATE OR REPLACE TABLE (`\S+`) CLONE", r"DROP TABLE IF EXISTS \1; CREATE TABLE \1 CLONE")
NO_TIME = refused(r"SYSTEM_TIME AS OF @", "FOR SYSTEM_TIME needs a constant")
STREAMED = "streamed-changes-are-cloned"
TAGGED = "clone-needs-fine-grained-reader"
PROTECTED = "publish-with-row-policies"
LOADED = "load-of-every-type"
ADDS = "truncate-data-adds-columns"
NO_REPLACE = refused(r"CREATE OR REPLACE TABLE \S+\s+CLONE", "Table already exists")
CASES: list[tuple[str, Change, str]] = [
    # what the server does, how, which test must find it
    ("a clone is of the present", PRESENT, "clone-in-script-with-parameters"),
    ("a clone is of the present", PRESENT, "clone-back"),
    ("a clone is of the present", PRESENT, "publish-clones-the-checked-rows"),
    ("a clone is of the present", PRESENT, "publish-rolls-back"),
    ("the past of a replaced table is the present", PRESENT, "time-travel-after-replace"),
    ("CLONE takes no parameter as its time", NO_TIME, "clone-in-script-with-parameters"),
    ("CLONE takes no parameter as its time", NO_TIME, "clone-back"),
    ("CLONE takes no parameter as its time", NO_TIME, "clone-time"),
    ("CLONE takes no parameter as its time", NO_TIME, "publish-of-every-type"),
    ("CLONE replaces nothing", NO_REPLACE, "clone-replaces"),
    ("CLONE replaces nothing", NO_REPLACE, "swap-under-readers"),
    ("CLONE replaces nothing", NO_REPLACE, "publish-of-every-type"),
    ("a clone follows its base", sql("replaces_target` ORDER", "replaces` ORDER"), "clone-replaces"),
    ("no description", sql("description = @description,", ""), "clone-in-script-with-parameters"),
    ("no expiration", sql("partition_expiration_days = @days,", ""), "clone-in-script-with-parameters"),
    (
        "no labels",
        sql(r",\s*labels = \[\('dedup_clone_generation', @generation\)\]", ""),
        "clone-in-script-with-parameters",
    ),
    (
        "a clone copies options",
        sql(r"(CREATE OR REPLACE TABLE `\S+` CLONE `\S+`)$", rf"\1 {OPTIONS}"),
        "clone-without-options",
    ),
    ("ASSERT lets everything pass", sql(r"ASSERT live = @parent AS '[^']*';", ""), "publish-guards-its-parent"),
    (
        "labels have another form",
        sql(r"REGEXP_EXTRACT\(option_value", "REGEXP_EXTRACT(REPLACE(option_value, ',', ':')"),
        "labels-as-text",
    ),
    (
        "labels have another form",
        sql(r"REGEXP_EXTRACT\(option_value", "REGEXP_EXTRACT(REPLACE(option_value, ',', ':')"),
        "publish-replaces-target",
    ),
    ("a clone has no clone definition", target(without("cloneDefinition")), "clone-time"),
    ("a clone has no clone definition", target(without("cloneDefinition")), "publish-of-every-type"),
    ("clone times show seconds", clone(cloneTime="2026-01-01T00:00:00.000Z"), "clone-time"),
    ("clone times show seconds", clone(cloneTime="2026-01-01T00:00:00.000Z"), "publish-of-every-type"),
    (
        "a clone names another base",
        clone(baseTableReference={"projectId": "p", "datasetId": "d", "tableId": "t"}),
        "clone-time",
    ),
    ("a clone is listed as a base table", sql("SELECT table_type", "SELECT 'BASE TABLE' AS table_type"), "clone-time"),
    ("a table is dropped before it is replaced", DROP_FIRST, "other-partitioning-refused"),
    ("a table is dropped before it is replaced", DROP_FIRST, "other-clustering-refused"),
    ("a replacement is refused for something else", refused("CLONE", "backend error"), "other-partitioning-refused"),
    ("a clone is not clustered", target(without("clustering")), "clone-keeps-layout"),
    ("a clone is not partitioned", target(lambda t: t["timePartitioning"].update(field="other")), "clone-keeps-layout"),
    ("a clone has another schema", target(lambda t: t["schema"]["fields"].pop()), "clone-keeps-layout"),
    (
        "clones have any depth",
        sql(r"CREATE TABLE (`\S+depth4`) CLONE (`\S+`)", r"CREATE TABLE \1 AS SELECT * FROM \2"),
        "clone-depth",
    ),
    ("readers see a mixture", sql(r"MAX\(number\), COUNT", "MAX(number) + 1, COUNT"), "swap-under-readers"),
    ("readers miss rows", sql(r"COUNT\(\*\) FROM `\S+readers_target`", "1"), "swap-under-readers"),
    ("readers get errors", refused(r"SELECT MIN\(number\)", "table is being replaced"), "swap-under-readers"),
    ("lists of files are not taken", refused("fileSetSpecType"), "uri-manifest"),
    (
        "a list of files is read as a file",
        job("load", lambda load: load.pop("fileSetSpecType", None) is not None),
        "uri-manifest",
    ),
    ("a job id may be used again", fresh_job_ids(), "job-id-once"),
    *(
        (f"the id of a job of step {step} may be used again", repeated_job_ids(step), "publish-job-ids-once")
        for step in ("append_1", r"export_\d+", "incoming", "load", r"load_\d+", "swap")
    ),
    ("broken files are left out", uris(lambda uri: None if "broken" in uri else uri), "failed-load-changes-nothing"),
    ("generations in addresses are overlooked", uris(lambda uri: uri.partition("#")[0]), "uri-without-generation"),
    ("columns meet by position", sql("SELECT day, id, number", "SELECT day, number, id"), "columns-by-name"),
    (
        "loads wait for long",
        statistics(lambda s: s.update(startTime=str(int(s["creationTime"]) + 100_000))),
        "load-is-prompt",
    ),
    (
        "loads fill a streaming buffer",
        answer("/tables/counts", lambda t: t.update(streamingBuffer={"estimatedRows": "1"})),
        "no-streaming-buffer-after-load",
    ),
    (
        "counts of rows are late",
        answer("/tables/counts", lambda t: t.update(numRows="0")),
        "no-streaming-buffer-after-load",
    ),
    (
        "partitions' rows are late",
        sql("SELECT total_rows FROM", "SELECT total_rows - 1 FROM"),
        "no-streaming-buffer-after-load",
    ),
    (
        "exports change values",
        sql(r"SELECT number FROM (`\S+extracted`)", r"SELECT number + 1 AS number FROM \1"),
        "extract-is-free",
    ),
    ("tables are not exported", refused('"extract"'), "extract-is-free"),
    ("external tables name no file", sql("_FILE_NAME AS file", "'' AS file"), "external-files-in-a-query"),
    ("queries take no external table", refused("tableDefinitions"), "external-files-in-a-query"),
    ("queries take no external table", refused("tableDefinitions"), "publish-of-every-type"),
    ("WRITE_TRUNCATE_DATA drops policies", disposition("WRITE_TRUNCATE_DATA", "WRITE_TRUNCATE"), "truncate-data-keeps"),
    ("WRITE_TRUNCATE_DATA appends", disposition("WRITE_TRUNCATE_DATA", "WRITE_APPEND"), "clone-replaces"),
    ("WRITE_TRUNCATE_DATA appends", disposition("WRITE_TRUNCATE_DATA", "WRITE_APPEND"), "truncate-data-of-a-partition"),
    (
        "a query's WRITE_TRUNCATE_DATA drops policies",
        disposition("WRITE_TRUNCATE_DATA", "WRITE_TRUNCATE", "query"),
        "truncate-data-of-a-query",
    ),
    ("a clone has no primary key", target(without("tableConstraints")), "publish-keeps-a-primary-key"),
    ("WRITE_TRUNCATE_DATA is unknown", refused("WRITE_TRUNCATE_DATA"), "truncate-data-keeps"),
    ("WRITE_TRUNCATE keeps policies", disposition("WRITE_TRUNCATE", "WRITE_TRUNCATE_DATA"), "truncate-drops-policies"),
    ("a load into a partition replaces the table", job("load", without_decorator), "truncate-data-of-a-partition"),
    ("a clone has no policies", answer("/carried_target/rowAccessPolicies", dict.clear), "clone-carries-policies"),
    ("a clone keeps the policies of the table that it replaces", keeps_replaced_policies(), "clone-carries-policies"),
    ("nothing expires", expiration(None), "expired-day-vanishes"),
    ("nothing expires", expiration(None), "expiration-in-metadata"),
    ("days expire early", expiration(700 * 86_400_000), "boundary-of-expiration"),
    (
        "rows without a date are elsewhere",
        sql("SELECT partition_id FROM", "SELECT REPLACE(partition_id, '__NULL__', '__UNPARTITIONED__') FROM"),
        "dates-without-value",
    ),
    (
        "times of change stand still",
        sql("SELECT last_modified_time", "SELECT TIMESTAMP '2026-01-01 00:00:00'"),
        "last-modified-of-partitions",
    ),
    (
        "options lack the expiration",
        sql("option_name = 'partition_expiration_days'", "FALSE"),
        "expiration-in-metadata",
    ),
    ("metadata costs more", query_statistics(totalBytesBilled=str(20 * 2**20)), "metadata-query-bills-its-minimum"),
    ("COUNT(*) reads", query_statistics(totalBytesProcessed="8000"), "count-reads-nothing"),
    ("a dry run guesses", query_statistics(totalBytesProcessed="1"), "dry-run-returns-bytes"),
    ("MERGE counts changed rows only", query_statistics(totalBytesProcessed="24"), "merge-counts-updated-partitions"),
    (
        "storage is billed by physical bytes",
        answer(r"/datasets/\w+(\?|$)", lambda d: d.update(storageBillingModel="PHYSICAL")),
        "storage-billed-by-logical-bytes",
    ),
    (
        "time travel is two days",
        answer(r"/datasets/\w+(\?|$)", lambda d: d.update(maxTimeTravelHours="48")),
        "time-travel-window",
    ),
    ("preconditions of writes are overlooked", address(r"[?&]ifGenerationMatch=\d+", "?x=1"), "create-if-absent"),
    ("preconditions of writes are overlooked", address(r"&ifGenerationMatch=[1-9]\d*", ""), "replace-as-read"),
    (
        "listings are late",
        answer(r"/b/\S+/o\?", lambda listed: listed["items"].pop() if listed.get("items") else None),
        "listing-is-consistent",
    ),
    ("generations do not grow", uploaded(lambda o: o.update(generation="7")), "marker-time-is-arrival"),
    ("a load that adds a column drops it", answer("/tables/widened", lambda t: t["schema"]["fields"].pop()), ADDS),
    (
        "new columns are refused",
        job("load", lambda load: load.pop("schemaUpdateOptions", None) is not None),
        ADDS,
    ),
    ("tags of columns are lost", job("load", truncating), TAGGED),
    (
        "tags of columns hide nothing",
        sql(r"SELECT number FROM `\S+tagged`.*", "SELECT 2"),
        TAGGED,
    ),
    ("added columns are lost", patched(lambda t: t["schema"]["fields"].pop()), "publish-adds-a-column"),
    ("columns cannot be widened", refused("ALTER COLUMN", "unsupported"), "publish-widens-a-column"),
    ("columns stay as they are", sql("ALTER TABLE .* SET DATA TYPE .*", "SELECT 1"), "publish-widens-a-column"),
    ("an export of a partition is one of the table", job("extract", whole_table), "publish-changes-its-engine"),
    ("an export of a partition is one of the table", job("extract", whole_table), "export-of-every-type"),
    ("exports lose microseconds", of_exports("TIMESTAMP_TRUNC(at, MILLISECOND)", "at"), "export-of-every-type"),
    ("exports lose arrays", of_exports("IF(TRUE, [], tags)", "tags"), "export-of-every-type"),
    ("everybody is told to have the permission", permissions(READ_PAST), PROTECTED),
    (
        "policies are not listed",
        answer(r"/engines_\d+_staging/rowAccessPolicies", dict.clear),
        PROTECTED,
    ),
    ("changes are never applied", sql("upsert_stream_apply_watermark", "CAST(NULL AS TIMESTAMP)"), STREAMED),
    ("max_staleness is ignored", patched(without("maxStaleness")), STREAMED),
    ("tables with streamed changes are not cloned", refused(r"CLONE `\S+engines_\d+_staging` FOR"), STREAMED),
    (
        "streamed rows are appended",
        sql(r"(SELECT \* FROM (\S+engines_\d+))$", r"\1 UNION ALL SELECT * FROM \2"),
        STREAMED,
    ),
    ("microseconds are lost", selected("TIMESTAMP_TRUNC(at, MILLISECOND)", "at"), "publish-of-every-type"),
    ("NULL becomes an empty text", selected("IFNULL(note, '')", "note"), "publish-of-every-type"),
    (
        "a replaced table keeps its creation time",
        answer(r"/tables/created_target(\?|$)", lambda t: t.update(creationTime="1700000000000")),
        "creation-time-after-replace",
    ),
    (
        "a load makes a table new",
        answer(r"/tables/created(\?|$)", lambda t: t.update(creationTime=t["lastModifiedTime"])),
        "creation-time-after-replace",
    ),
    (
        "DDL runs in a transaction",
        sql(r"BEGIN TRANSACTION;(.*);\s*COMMIT TRANSACTION", r"\1"),
        "no-ddl-in-transaction",
    ),
    (
        "a materialized view lives on",
        sql("CREATE MATERIALIZED VIEW", "CREATE TABLE"),
        "materialised-view-breaks",
    ),
    ("rows that nobody may see are cloned", shown_rows(), "clone-needs-true-filter"),
    ("everybody is told to have the permission", permissions(READ_PAST), "past-needs-permission"),
    ("preconditions of deletions are overlooked", address(r"ifGenerationMatch=\d+&", ""), "delete-as-read"),
    (
        "a copy takes several calls",
        rewritten(lambda a: a.update(done=False, rewriteToken="more")),
        "copy-on-the-server",
    ),
    ("bytes are cut", selected("SUBSTR(raw, 1, 1)", "raw"), "publish-of-every-type"),
    ("decimals are rounded", selected("CAST(CAST(price AS FLOAT64) AS NUMERIC)", "price"), "publish-of-every-type"),
    ("arrays lose an element", selected("IF(TRUE, [0], numbers)", "numbers"), "publish-of-every-type"),
    ("files of landing are refused", refused(r'"gs://[\w-]+-landing/'), "publish-of-every-type"),
    ("an ENUM is loaded as BYTES", job("load", without_enums), "publish-of-every-type"),
    ("a local time is shifted", selected("DATETIME_ADD(local_at, INTERVAL 1 HOUR)", "local_at"), LOADED),
    ("a load takes no schema", refused('"load": {.*"schema"'), LOADED),
    ("infinity becomes NULL", selected("IF(IS_INF(amount), NULL, amount)", "amount"), LOADED),
    (
        "a query takes no WRITE_TRUNCATE_DATA",
        refused(r'"query": .*"WRITE_TRUNCATE_DATA"'),
        "publish-of-every-type-by-query",
    ),
    (
        "a query's decimals are rounded",
        selected("CAST(CAST(price AS FLOAT64) AS NUMERIC)", "price"),
        "publish-of-every-type-by-query",
    ),
    ("policy tags are not kept", patched(untagged), "publish-with-a-policy-tag"),
    (
        "tags of columns hide nothing",
        sql(r"SELECT attr_value FROM .*", "SELECT 2"),
        "publish-with-a-policy-tag",
    ),
    ("a clone has no parameters of types", target(without_parameters), "clone-keeps-types-with-parameters"),
    ("default values are overlooked", patched(without_default_values), "clone-keeps-default-values"),
    ("foreign keys are overlooked", patched(without("tableConstraints")), "clone-keeps-foreign-keys"),
    ("a replaced table has no access of its own", without_table_access(), "replacement-keeps-table-access"),
    (
        "a dataset authorizes no view",
        together(sql("CREATE VIEW", "CREATE TABLE"), patched(without("access"), r"/datasets/\w+(\?|$)")),
        "replacement-keeps-authorized-views",
    ),
    ("nested columns stay REQUIRED", patched(still_required), "nested-column-relaxes"),
]


@pytest.fixture(autouse=True)
def repaired(session: BrokenSession) -> Any:
    yield
    session.change = Change()


def cases() -> list[Any]:
    """All cases. Each takes seconds, so `make test` tries every twentieth."""
    return [
        pytest.param(*case, id=f"{case[2]}: {case[0]}", marks=pytest.mark.exhaustive if number % 20 else ())
        for number, case in enumerate(CASES)
    ]


@pytest.mark.parametrize(("does", "change", "name"), cases())
def test_a_broken_assumption_is_found(
    does: str, change: Change, name: str, clients: Clients, session: BrokenSession
) -> None:
    (assumption,) = [a for a in all_assumptions() if a.name == name]
    with throwaway_dataset(clients) as probe:
        session.change, session.applied = change, 0
        (result,) = try_all(probe, [assumption])
        session.change = Change()
    assert session.applied, "the change met no request"
    assert result.verdict is ProbeVerdict.DOES_NOT_HOLD, result.evidence


def test_a_reader_that_sees_a_mixture_is_counted_once(clients: Clients, session: BrokenSession) -> None:
    (assumption,) = [a for a in all_assumptions() if a.name == "swap-under-readers"]
    with throwaway_dataset(clients) as probe:
        session.change = sql(r"MAX\(number\), COUNT", "MAX(number) + 1, COUNT")
        (result,) = try_all(probe, [assumption])
        session.change = Change()
    wrong, of, answers, *_ = result.evidence.split()
    assert (of, wrong) == ("of", answers), result.evidence


@pytest.mark.parametrize("answers", [BudgetSpent("spent"), lambda sql: Event().wait(60)], ids=["budget", "no answer"])
def test_swaps_without_a_readers_answer_prove_nothing(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, answers: Any
) -> None:
    (assumption,) = [a for a in all_assumptions() if a.name == "swap-under-readers"]
    monkeypatch.setattr("deploy.probe.swaps.READER_ENDS_WITHIN_S", 0.1)
    with throwaway_dataset(clients) as probe:
        monkeypatch.setattr(ProbeDataset, "rows", Mock(side_effect=answers))
        (result,) = try_all(probe, [assumption])
    assert result.verdict is ProbeVerdict.NOT_TRIED


def test_every_assumption_is_broken_and_each_case_is_another() -> None:
    assert {name for _, _, name in CASES} == {assumption.name for assumption in all_assumptions()}
    assert len({(does, name) for does, _, name in CASES}) == len(CASES)
