"""A server that breaks a rule is found by the rule's test: each line of the table breaks one rule."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dedup_clone.warehouse.bigquery import READ_PAST
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
    keeps_replaced_policies,
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

# the rule's test, what the server does, how
TABLE: list[tuple[str, str, Change]] = [
    # the swap
    ("clone_replaces", "CLONE replaces nothing", NO_REPLACE),
    ("clone_replaces", "a clone follows its base", sql("replaces_target` ORDER", "replaces` ORDER")),
    ("clone_replaces", "WRITE_TRUNCATE_DATA appends", disposition("WRITE_TRUNCATE_DATA", "WRITE_APPEND")),
    ("clone_in_a_script_with_parameters", "a clone is of the present", PRESENT),
    ("clone_in_a_script_with_parameters", "CLONE takes no parameter as its time", NO_TIME),
    (
        "clone_in_a_script_with_parameters",
        "options take no parameter",
        sql(r"description = @description,|partition_expiration_days = @days,", ""),
    ),
    (
        "a_clone_that_expires_keeps_what_a_swap_replaces",
        "a clone takes no expiration",
        sql(r"OPTIONS \(expiration_timestamp = [^;]*", ""),
    ),
    (
        "a_clone_that_expires_keeps_what_a_swap_replaces",
        "it has the new rows",
        sql(r"CLONE `(\S+expires)_target`", r"CLONE `\1`"),
    ),
    (
        "labels_are_text_in_table_options",
        "labels have another form",
        sql(r"REGEXP_EXTRACT\(option_value", "REGEXP_EXTRACT(REPLACE(option_value, ',', ':')"),
    ),
    ("a_clone_shows_its_base_and_its_time", "a clone has no definition", of_targets(without("cloneDefinition"))),
    ("a_clone_shows_its_base_and_its_time", "times show seconds", clone(cloneTime="2026-01-01T00:00:00.000Z")),
    ("another_partitioning_is_refused", "a table is dropped before it is replaced", DROP_FIRST),
    ("another_partitioning_is_refused", "it is refused for something else", refused("CLONE", "backend error")),
    ("another_clustering_is_refused", "a table is dropped before it is replaced", DROP_FIRST),
    (
        "a_clone_has_no_options_of_its_base",
        "a clone copies options",
        sql(r"(CREATE OR REPLACE TABLE `\S+` CLONE `\S+`)$", rf"\1 {OPTIONS}"),
    ),
    ("a_clone_has_the_layout_of_its_base", "a clone is not clustered", of_targets(without("clustering"))),
    (
        "the_fourth_clone_in_a_chain_is_refused",
        "clones have any depth",
        sql(r"CREATE TABLE (`\S+depth4`) CLONE (`\S+`)", r"CREATE TABLE \1 AS SELECT * FROM \2"),
    ),
    (
        "a_table_is_not_cloned_onto_itself_or_its_base",
        "nothing happens",
        sql(r"CREATE OR REPLACE TABLE `\S+circle` .*", "SELECT 1"),
    ),
    ("the_past_of_staging_is_cloned_back", "a clone is of the present", PRESENT),
    ("the_past_of_a_replaced_table_is_read", "the past is the present", PRESENT),
    (
        "readers_see_one_table_during_swaps",
        "readers see a mixture",
        sql(r"MAX\(number\), COUNT", "MAX(number) + 1, COUNT"),
    ),
    (
        "readers_see_one_table_during_swaps",
        "readers get errors",
        refused(r"SELECT MIN\(number\)", "table is being replaced"),
    ),
    (
        "a_replaced_table_has_a_new_creation_time",
        "a replaced table keeps its creation time",
        answered(r"/tables/created_target(\?|$)", lambda t: t.update(creationTime="1700000000000")),
    ),
    (
        "a_transaction_has_no_ddl",
        "DDL runs in a transaction",
        sql(r"BEGIN TRANSACTION;(.*);\s*COMMIT TRANSACTION", r"\1"),
    ),
    ("a_materialized_view_breaks", "it lives on", sql("CREATE MATERIALIZED VIEW", "CREATE TABLE")),
    ("a_materialized_view_survives_a_load", "it has the old rows", sql("CREATE MATERIALIZED VIEW", "CREATE TABLE")),
    ("a_clone_has_the_parameters_of_types", "it has none", of_targets(fields(without("maxLength")))),
    (
        "a_clone_has_the_default_values",
        "default values are overlooked",
        patched(fields(without("defaultValueExpression"))),
    ),
    ("a_clone_has_the_foreign_keys", "foreign keys are overlooked", patched(without("tableConstraints"))),
    ("a_replaced_table_keeps_its_access", "it has no access of its own", without_table_access()),
    (
        "a_replaced_table_keeps_its_authorized_views",
        "a dataset authorizes no view",
        together(sql("CREATE VIEW", "CREATE TABLE"), patched(without("access"), r"/datasets/\w+(\?|$)")),
    ),
    # loads, exports, files in queries
    ("an_object_lists_the_files_of_a_load", "lists of files are not taken", NO_LISTS),
    (
        "a_load_names_at_most_ten_thousand_files",
        "the rest is left out",
        job("load", lambda load: load.update(sourceUris=load["sourceUris"][:1])),
    ),
    ("a_job_id_is_used_once", "a job id may be used again", repeated_job_ids()),
    ("a_failed_load_changes_nothing", "broken files are left out", uris(lambda uri: None if "broken" in uri else uri)),
    ("a_uri_with_a_generation_is_refused", "generations are overlooked", uris(lambda uri: uri.partition("#")[0])),
    (
        "columns_are_matched_by_name",
        "columns meet by position",
        sql("SELECT day, id, number", "SELECT day, number, id"),
    ),
    (
        "a_load_that_replaces_rows_adds_a_column",
        "the new column is dropped",
        answered("/tables/grown", lambda t: t["schema"]["fields"].pop()),
    ),
    ("a_load_that_replaces_rows_adds_a_column", "columns are refused", job("load", without("schemaUpdateOptions"))),
    (
        "a_load_starts_at_once",
        "loads wait for long",
        statistics(lambda s: s.update(startTime=str(int(s["creationTime"]) + 100_000))),
    ),
    (
        "counts_are_exact_after_a_load",
        "loads fill a streaming buffer",
        answered("/tables/counts", lambda t: t.update(streamingBuffer={"estimatedRows": "1"})),
    ),
    (
        "counts_are_exact_after_a_load",
        "partitions' rows are late",
        sql("SELECT partition_id, total_rows", "SELECT partition_id, total_rows - 1"),
    ),
    ("lists_need_list_inference", "lists lose elements", sql("SELECT tags,", "SELECT IF(TRUE, ['a'], tags) AS tags,")),
    ("a_datetime_needs_the_schema_of_the_job", "a load takes no schema", job("load", without("schema"))),
    ("an_enum_is_text_with_an_option", "an ENUM is BYTES", job("load", without("parquetOptions", "enumAsString"))),
    (
        "the_last_file_gives_the_schema",
        "the first file gives it",
        uris(lambda uri: None if uri.endswith("s/b") else uri),
    ),
    ("a_changed_type_is_refused", "the load replaces the table", disposition("WRITE_APPEND", "WRITE_TRUNCATE")),
    (
        "an_exported_table_is_loaded_again",
        "exports change values",
        sql(r"SELECT number FROM (`\S+extracted_whole`)", r"SELECT number + 1 AS number FROM \1"),
    ),
    ("an_exported_table_is_loaded_again", "a partition is the table", whole_table("extract", "sourceTable")),
    ("a_query_reads_parquet_files", "a file has no name", sql("_FILE_NAME AS file", "'' AS file")),
    ("a_query_reads_parquet_files", "queries take no files", refused("tableDefinitions")),
    ("an_object_lists_the_files_of_a_query", "lists of files are not taken", NO_LISTS),
    (
        "queries_of_files_have_limits",
        "a schema is overlooked",
        job("query", without("tableDefinitions", "landed", "schema")),
    ),
    (
        "a_query_compares_a_table_with_files",
        "a DATETIME stays one",
        sql(r"UNIX_MICROS\(moment\)", "UNIX_MICROS(DATETIME(moment))"),
    ),
    (
        "distant_days_have_no_partition",
        "they are with those without a date",
        sql("SELECT partition_id,", "SELECT REPLACE(partition_id, '__UNPARTITIONED__', '__NULL__') AS partition_id,"),
    ),
    # partitions, costs, columns
    ("an_expired_day_vanishes", "nothing expires", expiration(None)),
    ("a_day_exists_until_it_expires", "days expire early", expiration(EARLY_DAY)),
    (
        "rows_without_a_date_have_a_partition",
        "they are elsewhere",
        sql("SELECT partition_id,", "SELECT REPLACE(partition_id, '__NULL__', '__UNPARTITIONED__') AS partition_id,"),
    ),
    (
        "a_partition_shows_its_last_change",
        "times stand still",
        sql("last_modified_time FROM", "TIMESTAMP '2026-01-01 00:00:00' FROM"),
    ),
    ("metadata_show_the_expiration", "nothing expires", expiration(None)),
    ("a_metadata_query_bills_its_minimum", "it costs more", query_statistics(totalBytesBilled=str(20 * 2**20))),
    ("a_count_reads_nothing", "COUNT(*) reads", query_statistics(totalBytesProcessed="8000")),
    ("a_dry_run_says_what_a_query_reads", "a dry run guesses", query_statistics(totalBytesProcessed="1")),
    ("merge_bills_updated_partitions", "changed rows only count", query_statistics(totalBytesProcessed="24")),
    ("merge_takes_one_source_row_for_a_target_row", "one of them counts", sql(r"UNNEST\(\[1, 2\]\)", "UNNEST([1])")),
    (
        "merge_deletes_rows_that_the_source_lacks",
        "rows stay that ON leaves out",
        sql("AND t.day NOT IN", "AND t.day BETWEEN @first AND @last AND t.day NOT IN"),
    ),
    (
        "merge_deletes_rows_that_the_source_lacks",
        "its condition is overlooked",
        sql(r"AND t.day NOT IN UNNEST\(\S+ \S+\) THEN DELETE", "THEN DELETE"),
    ),
    (
        "storage_is_billed_by_logical_bytes",
        "it is billed by physical bytes",
        answered(r"/datasets/\w+(\?|$)", lambda d: d.update(storageBillingModel="PHYSICAL")),
    ),
    (
        "time_travel_is_seven_days",
        "time travel is two days",
        answered(r"/datasets/\w+(\?|$)", lambda d: d.update(maxTimeTravelHours="48")),
    ),
    (
        "a_nested_column_becomes_nullable",
        "it stays REQUIRED",
        patched(fields(lambda field: field.update(mode="REQUIRED") if field["name"] == "x" else None)),
    ),
    ("a_partition_filter_can_be_required", "it is overlooked", sql("= TRUE", "= FALSE")),
    ("a_type_becomes_wider", "columns cannot be widened", refused("ALTER COLUMN", "unsupported")),
    ("parameters_of_types_hold_for_writes", "parameters are overlooked", sql(r"STRING\(3\)", "STRING")),
    ("reserved_column_names_are_refused", "any name is taken", sql(r"`_FILE_x`", "`x`")),
    ("an_array_of_a_result_has_no_null", "NULL is left out", sql(r"\[1, NULL\]", "[1]")),
    ("a_primary_key_has_limits", "keys are overlooked", sql(", PRIMARY KEY .* NOT ENFORCED", "")),
    (
        "parameters_need_their_mode",
        "the mode is guessed",
        posted("/queries", lambda query: query.setdefault("parameterMode", "NAMED")),
    ),
    (
        "new_tables_get_the_default_expiration_of_their_dataset",
        "clones do not expire",
        answered(r"/tables/cloned(\?|$)", without("expirationTime")),
    ),
    ("a_table_is_changed_as_it_was_read", "the last change counts", answered("/tables/etag", without("etag"))),
    ("a_script_lists_its_child_jobs", "all jobs are listed", address("parentJobId=[^&]*&?", "")),
    ("results_come_in_pages", "all rows are in one page", address("maxResults=10&?", "")),
    # policies
    (
        "a_load_keeps_policies_and_options",
        "WRITE_TRUNCATE_DATA drops policies",
        disposition("WRITE_TRUNCATE_DATA", "WRITE_TRUNCATE"),
    ),
    ("a_load_keeps_policies_and_options", "WRITE_TRUNCATE_DATA is unknown", refused("WRITE_TRUNCATE_DATA")),
    (
        "a_query_keeps_policies_and_options",
        "a query's WRITE_TRUNCATE_DATA drops policies",
        disposition("WRITE_TRUNCATE_DATA", "WRITE_TRUNCATE", "query"),
    ),
    ("a_load_replaces_one_partition", "it replaces the table", whole_table("load", "destinationTable")),
    ("write_truncate_drops_policies", "policies stay", disposition("WRITE_TRUNCATE", "WRITE_TRUNCATE_DATA")),
    (
        "a_clone_has_the_policies_of_its_base",
        "a clone has none",
        answered("/carried_target/rowAccessPolicies", dict.clear),
    ),
    ("a_clone_has_the_policies_of_its_base", "policies of the replaced table stay", keeps_replaced_policies()),
    (
        "a_clone_needs_the_true_filter",
        "row policies hide no rows",
        posted("/rowAccessPolicies", lambda policy: policy.update(filterPredicate="TRUE")),
    ),
    ("the_past_needs_a_permission", "everybody is told to have it", permissions(READ_PAST)),
    ("a_clone_needs_fine_grained_reader", "tags are lost", disposition("WRITE_TRUNCATE_DATA", "WRITE_TRUNCATE")),
    ("a_clone_needs_fine_grained_reader", "tags hide nothing", sql(r"SELECT number FROM `\S+tagged`.*", "SELECT 2")),
    ("policies_are_listed_in_pages", "all are in one page", address(r"pageSize=1&", "")),
    # streamed changes
    *(
        (rule, "changes are lost", sql("SELECT id, name FROM .*", "SELECT 7, 'x'"))
        for rule in (
            "changes_are_seen_by_the_next_query",
            "a_repeated_or_late_change_changes_nothing",
            "changes_are_not_mixed_with_plain_rows",
            "a_wrong_change_is_named_and_its_request_changes_nothing",
            "changes_need_a_primary_key",
        )
    ),
    ("pseudocolumns_cannot_be_queried", "they have values", sql("SELECT _CHANGE_TYPE", "SELECT 'UPSERT'")),
    (
        "within_max_staleness_changes_are_not_seen",
        "changes are applied at once",
        sql(r"OPTIONS \(max_staleness.*\)", ""),
    ),
    # Cloud Storage
    ("an_object_is_created_once", "preconditions are overlooked", address(r"[?&]ifGenerationMatch=\d+", "?x=1")),
    (
        "an_object_is_replaced_as_it_was_read",
        "preconditions are overlooked",
        address(r"&ifGenerationMatch=[1-9]\d*", ""),
    ),
    ("an_object_is_deleted_as_it_was_read", "preconditions are overlooked", address(r"ifGenerationMatch=\d+&", "")),
    (
        "a_listing_is_up_to_date",
        "listings are late",
        answered(r"/b/\S+/o\?", lambda listed: listed["items"].pop() if listed.get("items") else None),
    ),
    (
        "the_server_copies_an_object",
        "a copy takes several calls",
        answered("/rewriteTo/", lambda a: a.update(done=False, rewriteToken="more"), "POST"),
    ),
    (
        "each_write_has_its_own_time",
        "generations do not grow",
        answered("/upload/", lambda o: o.update(generation="7"), "POST"),
    ),
    # publishes
    (
        "every_type_is_published_with_required_columns",
        "microseconds are lost",
        selected("TIMESTAMP_TRUNC(at, MILLISECOND)", "at"),
    ),
    ("every_type_is_published_with_required_columns", "bytes are cut", selected("SUBSTR(raw, 1, 1)", "raw")),
    (
        "every_type_is_published_by_a_query",
        "a query takes no WRITE_TRUNCATE_DATA",
        refused(r'"query": .*"WRITE_TRUNCATE_DATA"'),
    ),
    ("every_type_is_loaded", "a load takes no schema", refused('"load": {.*"schema"')),
    ("every_type_is_loaded", "infinity becomes NULL", selected("IF(IS_INF(amount), NULL, amount)", "amount")),
    ("every_type_is_exported", "a partition is the table", whole_table("extract", "sourceTable")),
    ("every_type_is_exported", "arrays are lost", selected("IF(TRUE, [], tags)", "tags")),
    ("a_publish_replaces_target", "a clone has no definition", of_targets(without("cloneDefinition"))),
    ("a_primary_key_is_kept", "a clone has no primary key", of_targets(without("tableConstraints"))),
    ("a_rollback_clones_the_past", "a clone is of the present", PRESENT),
    ("a_swap_guards_its_parent", "ASSERT lets everything pass", sql(r"ASSERT live = @parent AS '[^']*';", "")),
    ("a_swap_clones_the_checked_rows", "a clone is of the present", PRESENT),
    *(
        ("no_job_of_a_publish_runs_twice", f"a job of step {step} runs twice", repeated_job_ids(step))
        for step in ("append_1", r"export_\d+", "load", "swap")
    ),
    ("a_publish_adds_a_column", "added columns are lost", patched(lambda t: t["schema"]["fields"].pop())),
    ("a_publish_widens_a_column", "columns cannot be widened", refused("ALTER COLUMN", "unsupported")),
    ("a_feed_changes_its_engine", "a partition is the table", whole_table("extract", "sourceTable")),
    ("a_table_with_row_policies_is_published", "everybody is told to have the right", permissions(READ_PAST)),
    (
        "a_table_with_row_policies_is_published",
        "policies are not listed",
        answered(r"/engines_\d+_staging/rowAccessPolicies", dict.clear),
    ),
    ("a_table_with_a_policy_tag_is_published", "tags are lost", patched(fields(without("policyTags")))),
    (
        "streamed_changes_are_cloned",
        "changes are never applied",
        sql("upsert_stream_apply_watermark", "CAST(NULL AS TIMESTAMP)"),
    ),
    ("streamed_changes_are_cloned", "max_staleness is ignored", patched(without("maxStaleness"))),
    (
        "streamed_changes_are_cloned",
        "streamed rows are appended",
        sql(r"(SELECT \* FROM (\S+engines_\d+))$", r"\1 UNION ALL SELECT * FROM \2"),
    ),
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
    ("rule", "does", "change"), [pytest.param(*case, id=f"{case[0]}: {case[1]}") for case in every_third(TABLE)]
)
def test_a_broken_rule_is_found(
    rule: str, does: str, change: Change, broken: Servers, session: BrokenSession, write_api: None
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
    assert {rule for rule, _, _ in TABLE} == set(rules)
    assert len({(rule, does) for rule, does, _ in TABLE}) == len(TABLE)
    root = Path(__file__).parents[2]
    relied = {path for test in rules.values() for path in test.pytestmark[0].kwargs["relies"].split()}
    assert sorted(path for path in relied if not (root / path).exists()) == []
