"""A server that breaks a rule is found by the rule's test: each line of the table breaks one rule."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dedup_clone.warehouse.row_policies import READ_PAST
from tests.conformance.rules import Verdict, verdict_of
from tests.conformance.sandbox import Sandbox, Servers, local_servers, throwaway
from tests.conformance.server_changes import (
    BrokenSession,
    Change,
    address,
    answered,
    clone,
    disposition,
    expiration,
    fields,
    job,
    keeps_replaced_policy,
    of_targets,
    patched,
    permissions,
    posted,
    query_statistics,
    refused,
    repeated_job_ids,
    selected,
    sql,
    statistics,
    together,
    uris,
    whole_table,
    without,
    without_table_access,
)
from tests.thoroughness import every_third

PRESENT = sql(r" FOR SYSTEM_TIME AS OF @\w+", "")
NO_TIME = refused(r"SYSTEM_TIME AS OF @", "FOR SYSTEM_TIME needs a constant")
DROP_FIRST = sql(r"CREATE OR REPLACE TABLE (`\S+`) CLONE", r"DROP TABLE IF EXISTS \1; CREATE TABLE \1 CLONE")
NO_REPLACE = refused(r"CREATE OR REPLACE TABLE \S+\s+CLONE", "Table already exists")
NO_LISTS = refused("fileSetSpecType")
OPTIONS = "OPTIONS (description = 'copied', labels = [('a', 'b')], partition_expiration_days = 730)"
EARLY_DAY = 86_400_000 * 700

# The rule's test, and what the server does.
TABLE: list[tuple[str, Change]] = [
    # the swap
    ("clone_replaces", NO_REPLACE),
    ("clone_replaces", sql("replaces_target` ORDER", "replaces` ORDER")),
    ("clone_replaces", disposition("WRITE_TRUNCATE_DATA", "WRITE_APPEND")),
    ("clone_in_a_script_with_parameters", PRESENT),
    ("clone_in_a_script_with_parameters", NO_TIME),
    ("clone_in_a_script_with_parameters", sql(r"description = @description,|partition_expiration_days = @days,", "")),
    ("a_clone_that_expires_keeps_what_a_swap_replaces", sql(r"OPTIONS \(expiration_timestamp = [^;]*", "")),
    ("a_clone_that_expires_keeps_what_a_swap_replaces", sql(r"CLONE `(\S+expires)_target`", r"CLONE `\1`")),
    (
        "labels_are_text_in_table_options",
        sql(r"REGEXP_EXTRACT\(option_value", "REGEXP_EXTRACT(REPLACE(option_value, ',', ':')"),
    ),
    ("a_clone_shows_its_base_and_its_time", of_targets(without("cloneDefinition"))),
    ("a_clone_shows_its_base_and_its_time", clone(cloneTime="2026-01-01T00:00:00.000Z")),
    ("another_partitioning_is_refused", DROP_FIRST),
    ("another_partitioning_is_refused", refused("CLONE", "backend error")),
    ("another_clustering_is_refused", DROP_FIRST),
    ("a_clone_has_no_options_of_its_base", sql(r"(CREATE OR REPLACE TABLE `\S+` CLONE `\S+`)$", rf"\1 {OPTIONS}")),
    ("a_clone_has_the_layout_of_its_base", of_targets(without("clustering"))),
    (
        "the_fourth_clone_in_a_chain_is_refused",
        sql(r"CREATE TABLE (`\S+depth4`) CLONE (`\S+`)", r"CREATE TABLE \1 AS SELECT * FROM \2"),
    ),
    ("a_table_is_not_cloned_onto_itself_or_its_base", sql(r"CREATE OR REPLACE TABLE `\S+circle` .*", "SELECT 1")),
    ("the_past_of_staging_is_cloned_back", PRESENT),
    ("the_past_of_a_replaced_table_is_read", PRESENT),
    ("readers_see_one_table_during_swaps", sql(r"MAX\(number\), COUNT", "MAX(number) + 1, COUNT")),
    ("readers_see_one_table_during_swaps", refused(r"SELECT MIN\(number\)", "table is being replaced")),
    (
        "a_replaced_table_has_a_new_creation_time",
        answered(r"/tables/created_target(\?|$)", lambda t: t.update(creationTime="1700000000000")),
    ),
    ("a_transaction_has_no_ddl", sql(r"BEGIN TRANSACTION;(.*);\s*COMMIT TRANSACTION", r"\1")),
    ("a_materialized_view_breaks", sql("CREATE MATERIALIZED VIEW", "CREATE TABLE")),
    ("a_materialized_view_survives_a_load", sql("CREATE MATERIALIZED VIEW", "CREATE TABLE")),
    ("a_clone_has_the_parameters_of_types", of_targets(fields(without("maxLength")))),
    ("a_clone_has_the_default_values", patched(fields(without("defaultValueExpression")))),
    ("a_clone_has_the_foreign_keys", patched(without("tableConstraints"))),
    ("a_replaced_table_keeps_its_access", without_table_access()),
    (
        "a_replaced_table_keeps_its_authorized_views",
        together(sql("CREATE VIEW", "CREATE TABLE"), patched(without("access"), r"/datasets/\w+(\?|$)")),
    ),
    # loads, exports, files in queries
    ("an_object_lists_the_files_of_a_load", NO_LISTS),
    (
        "a_load_names_at_most_ten_thousand_files",
        job("load", lambda load: load.update(sourceUris=load["sourceUris"][:1])),
    ),
    ("a_job_id_is_used_once", repeated_job_ids()),
    ("a_failed_load_changes_nothing", uris(lambda uri: None if "broken" in uri else uri)),
    ("a_uri_with_a_generation_is_refused", uris(lambda uri: uri.partition("#")[0])),
    ("columns_are_matched_by_name", sql("SELECT day, id, number", "SELECT day, number, id")),
    ("a_load_that_replaces_rows_adds_a_column", answered("/tables/grown", lambda t: t["schema"]["fields"].pop())),
    ("a_load_that_replaces_rows_adds_a_column", job("load", without("schemaUpdateOptions"))),
    ("a_load_starts_at_once", statistics(lambda s: s.update(startTime=str(int(s["creationTime"]) + 100_000)))),
    (
        "counts_are_exact_after_a_load",
        answered("/tables/counts", lambda t: t.update(streamingBuffer={"estimatedRows": "1"})),
    ),
    ("counts_are_exact_after_a_load", sql("SELECT partition_id, total_rows", "SELECT partition_id, total_rows - 1")),
    ("lists_need_list_inference", sql("SELECT tags,", "SELECT IF(TRUE, ['a'], tags) AS tags,")),
    ("a_datetime_needs_the_schema_of_the_job", job("load", without("schema"))),
    ("an_enum_is_text_with_an_option", job("load", without("parquetOptions", "enumAsString"))),
    ("the_last_file_gives_the_schema", uris(lambda uri: None if uri.endswith("s/b") else uri)),
    ("a_changed_type_is_refused", disposition("WRITE_APPEND", "WRITE_TRUNCATE")),
    (
        "an_exported_table_is_loaded_again",
        sql(r"SELECT number FROM (`\S+extracted_whole`)", r"SELECT number + 1 AS number FROM \1"),
    ),
    ("an_exported_table_is_loaded_again", whole_table("extract", "sourceTable")),
    ("a_query_reads_parquet_files", sql("_FILE_NAME AS file", "'' AS file")),
    ("a_query_reads_parquet_files", refused("tableDefinitions")),
    ("an_object_lists_the_files_of_a_query", NO_LISTS),
    ("queries_of_files_have_limits", job("query", without("tableDefinitions", "landed", "schema"))),
    ("a_query_compares_a_table_with_files", sql(r"UNIX_MICROS\(moment\)", "UNIX_MICROS(DATETIME(moment))")),
    (
        "distant_days_have_no_partition",
        sql("SELECT partition_id,", "SELECT REPLACE(partition_id, '__UNPARTITIONED__', '__NULL__') AS partition_id,"),
    ),
    # partitions, costs, columns
    ("an_expired_day_vanishes", expiration(None)),
    ("a_day_exists_until_it_expires", expiration(EARLY_DAY)),
    (
        "rows_without_a_date_have_a_partition",
        sql("SELECT partition_id,", "SELECT REPLACE(partition_id, '__NULL__', '__UNPARTITIONED__') AS partition_id,"),
    ),
    ("hours_belong_to_a_date_in_utc", sql(r"_TRUNC\(moment, HOUR\)", "_TRUNC(moment, DAY)")),
    ("hours_belong_to_a_date_in_utc", query_statistics(totalBytesProcessed="48")),
    ("a_partition_shows_its_last_change", sql("last_modified_time FROM", "TIMESTAMP '2026-01-01 00:00:00' FROM")),
    ("metadata_show_the_expiration", expiration(None)),
    ("a_metadata_query_bills_its_minimum", query_statistics(totalBytesBilled=str(20 * 2**20))),
    ("a_count_reads_nothing", query_statistics(totalBytesProcessed="8000")),
    ("a_dry_run_says_what_a_query_reads", query_statistics(totalBytesProcessed="1")),
    ("merge_bills_updated_partitions", query_statistics(totalBytesProcessed="24")),
    ("merge_takes_one_source_row_for_a_target_row", sql(r"UNNEST\(\[1, 2\]\)", "UNNEST([1])")),
    (
        "merge_deletes_rows_that_the_source_lacks",
        sql("AND t.day NOT IN", "AND t.day BETWEEN @first AND @last AND t.day NOT IN"),
    ),
    ("merge_deletes_rows_that_the_source_lacks", sql(r"AND t.day NOT IN UNNEST\(\S+ \S+\) THEN DELETE", "THEN DELETE")),
    (
        "storage_is_billed_by_logical_bytes",
        answered(r"/datasets/\w+(\?|$)", lambda d: d.update(storageBillingModel="PHYSICAL")),
    ),
    ("time_travel_is_seven_days", answered(r"/datasets/\w+(\?|$)", lambda d: d.update(maxTimeTravelHours="48"))),
    (
        "a_nested_column_becomes_nullable",
        patched(fields(lambda field: field.update(mode="REQUIRED") if field["name"] == "x" else None)),
    ),
    ("a_partition_filter_can_be_required", sql("= TRUE", "= FALSE")),
    ("a_type_becomes_wider", refused("ALTER COLUMN", "unsupported")),
    ("parameters_of_types_hold_for_writes", sql(r"STRING\(3\), n NUMERIC\(5, 2\)", "STRING, n NUMERIC")),
    ("reserved_column_names_are_refused", sql(r"`_FILE_x`", "`x`")),
    ("an_array_of_a_result_has_no_null", sql(r"\[1, NULL\]", "[1]")),
    ("a_primary_key_has_limits", sql(", PRIMARY KEY .* NOT ENFORCED", "")),
    ("parameters_need_their_mode", posted("/queries", lambda query: query.setdefault("parameterMode", "NAMED"))),
    (
        "new_tables_get_the_default_expiration_of_their_dataset",
        answered(r"/tables/cloned(\?|$)", without("expirationTime")),
    ),
    ("a_table_is_changed_as_it_was_read", answered("/tables/etag", without("etag"))),
    ("a_script_lists_its_child_jobs", address("parentJobId=[^&]*&?", "")),
    ("results_come_in_pages", address("maxResults=10&?", "")),
    # policies
    ("a_load_keeps_policies_and_options", disposition("WRITE_TRUNCATE_DATA", "WRITE_TRUNCATE")),
    ("a_load_keeps_policies_and_options", refused("WRITE_TRUNCATE_DATA")),
    ("a_query_keeps_policies_and_options", disposition("WRITE_TRUNCATE_DATA", "WRITE_TRUNCATE", "query")),
    ("a_load_replaces_one_partition", whole_table("load", "destinationTable")),
    ("write_truncate_drops_policies", disposition("WRITE_TRUNCATE", "WRITE_TRUNCATE_DATA")),
    ("a_clone_has_the_policies_of_its_base", answered("/carried_target/rowAccessPolicies", dict.clear)),
    ("a_clone_has_the_policies_of_its_base", keeps_replaced_policy()),
    ("a_clone_needs_the_true_filter", sql(r"FILTER USING \(id < 0\)", "FILTER USING (TRUE)")),
    ("the_past_needs_a_permission", permissions(READ_PAST)),
    ("a_clone_needs_fine_grained_reader", disposition("WRITE_TRUNCATE_DATA", "WRITE_TRUNCATE")),
    ("a_clone_needs_fine_grained_reader", sql(r"SELECT number FROM `\S+tagged`.*", "SELECT 2")),
    ("policies_are_listed_in_pages", address(r"pageSize=1&", "")),
    # streamed changes
    *(
        (rule, sql("SELECT id, name FROM .*", "SELECT 7, 'x'"))
        for rule in (
            "changes_are_seen_by_the_next_query",
            "a_repeated_or_late_change_changes_nothing",
            "changes_are_not_mixed_with_plain_rows",
            "a_wrong_change_is_named_and_its_request_changes_nothing",
            "changes_need_a_primary_key",
        )
    ),
    ("pseudocolumns_cannot_be_queried", sql("SELECT _CHANGE_TYPE", "SELECT 'UPSERT'")),
    ("within_max_staleness_changes_are_not_seen", sql(r"OPTIONS \(max_staleness.*\)", "")),
    # Cloud Storage
    ("an_object_is_created_once", address(r"[?&]ifGenerationMatch=\d+", "?x=1")),
    ("an_object_is_replaced_as_it_was_read", address(r"&ifGenerationMatch=[1-9]\d*", "")),
    ("an_object_is_deleted_as_it_was_read", address(r"ifGenerationMatch=\d+&", "")),
    (
        "a_listing_is_up_to_date",
        answered(r"/b/\S+/o\?", lambda listed: listed["items"].pop() if listed.get("items") else None),
    ),
    (
        "the_server_copies_an_object",
        answered("/rewriteTo/", lambda a: a.update(done=False, rewriteToken="more"), "POST"),
    ),
    ("each_write_has_its_own_time", answered("/upload/", lambda o: o.update(generation="7"), "POST")),
    # publishes
    ("every_type_is_published_with_required_columns", selected("TIMESTAMP_TRUNC(at, MILLISECOND)", "at")),
    ("every_type_is_published_with_required_columns", selected("SUBSTR(raw, 1, 1)", "raw")),
    ("every_type_is_published_by_a_query", refused(r'"query": .*"WRITE_TRUNCATE_DATA"')),
    ("every_type_is_loaded", refused('"load": {.*"schema"')),
    ("every_type_is_loaded", selected("IF(IS_INF(amount), NULL, amount)", "amount")),
    ("every_type_is_exported", whole_table("extract", "sourceTable")),
    ("every_type_is_exported", selected("IF(TRUE, [], tags)", "tags")),
    ("a_publish_replaces_target", of_targets(without("cloneDefinition"))),
    ("a_primary_key_is_kept", of_targets(without("tableConstraints"))),
    ("a_rollback_clones_the_past", PRESENT),
    ("a_swap_guards_its_parent", sql(r"ASSERT live = @parent AS '[^']*';", "")),
    ("a_swap_clones_the_checked_rows", PRESENT),
    *(
        ("no_job_of_a_publish_runs_twice", repeated_job_ids(step))
        for step in ("append_1", r"export_\d+", "load", "swap")
    ),
    ("a_publish_adds_a_column", patched(lambda t: t["schema"]["fields"].pop())),
    ("a_publish_widens_a_column", refused("ALTER COLUMN", "unsupported")),
    ("a_feed_changes_its_engine", whole_table("extract", "sourceTable")),
    ("a_table_with_row_policies_is_published", permissions(READ_PAST)),
    ("a_table_with_row_policies_is_published", answered(r"/engines_\d+_staging/rowAccessPolicies", dict.clear)),
    ("a_table_with_a_policy_tag_is_published", patched(fields(without("policyTags")))),
    ("streamed_changes_are_cloned", sql("upsert_stream_apply_watermark", "CAST(NULL AS TIMESTAMP)")),
    ("streamed_changes_are_cloned", patched(without("maxStaleness"))),
    ("streamed_changes_are_cloned", sql(r"(SELECT \* FROM (\S+engines_\d+))$", r"\1 UNION ALL SELECT * FROM \2")),
]


def functions_of_rules() -> dict[str, Callable[[Sandbox], None]]:
    """The tests of this folder that are marked as probes, by their names without `test_`."""
    names = [path.stem for path in Path(__file__).parent.glob("test_*.py") if path.stem != Path(__file__).stem]
    modules = [importlib.import_module(f"tests.conformance.{name}") for name in names]
    return {
        name.removeprefix("test_"): member
        for module in modules
        for name, member in vars(module).items()
        if any(mark.name == "probe" for mark in getattr(member, "pytestmark", ()))
    }


@pytest.fixture(scope="session")
def session() -> BrokenSession:
    return BrokenSession()


@pytest.fixture(scope="session")
def broken(addresses: tuple[str, str], session: BrokenSession) -> Servers:
    return local_servers(addresses, session)


def outcome(test: Callable[[Sandbox], None], sandbox: Sandbox) -> BaseException | None:
    try:
        test(sandbox)
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
        return error
    return None


@pytest.mark.parametrize(
    ("rule", "change"), [pytest.param(*case, id=f"{n}: {case[0]}") for n, case in every_third([*enumerate(TABLE)])]
)
def test_a_broken_rule_is_found(
    rule: str, change: Change, broken: Servers, session: BrokenSession, write_api: None
) -> None:
    with throwaway(broken) as own:
        session.change, session.applied = change, 0
        try:
            error = outcome(functions_of_rules()[rule], own)
        finally:
            session.change = Change()
    assert session.applied, "the change met no request"
    assert verdict_of(error) is Verdict.DID_NOT_HOLD, repr(error)


def test_each_rule_is_broken_in_the_table_and_names_files_that_exist() -> None:
    rules = functions_of_rules()
    assert {rule for rule, _ in TABLE} == set(rules)
    root = Path(__file__).parents[2]
    relied = {path for test in rules.values() for path in test.pytestmark[0].kwargs["relies"].split()}
    assert sorted(path for path in relied if not (root / path).exists()) == []
