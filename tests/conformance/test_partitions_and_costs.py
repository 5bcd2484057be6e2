"""Partitions, bytes that queries bill, and the settings of a new dataset."""

from __future__ import annotations

from datetime import date

import pytest
from google.api_core.exceptions import BadRequest, PreconditionFailed

from dedup_clone.warehouse.table_alterations import TableAlterations
from tests.conformance.rules import rule
from tests.conformance.sandbox import EXPIRATION_DAYS, MILLISECONDS_PER_DAY, Sandbox, throwaway

PARTITION_CHECKS = "plugins/dedup_clone/checks/partition_checks.py"
EXPIRATION_PAGE = "Manage partitioned tables"
MAX_METADATA_BYTES = 10 * 1024**2  # BigQuery's minimum for each table or view; a metadata query bills no more
ROWS = 1000
ROW_BYTES = 24  # three values of eight logical bytes


@rule(
    EXPIRATION_PAGE,
    f"spark_jobs/dedup_spark/landing/deliveries.py {PARTITION_CHECKS}",
    "Set `retention_days` to more than the oldest delivered date.",
)
def test_an_expired_day_vanishes(sandbox: Sandbox) -> None:
    """Rows of a day that is older than the partition expiration are gone as soon as they are loaded."""
    table = sandbox.new_table("expired", [(sandbox.today, 1, 1), (sandbox.days_ago(EXPIRATION_DAYS + 30), 1, 2)])
    assert sandbox.numbers(table) == [1]


@rule(EXPIRATION_PAGE, PARTITION_CHECKS, "Set `retention_days` one or two days higher than needed.")
def test_a_day_exists_until_it_expires(sandbox: Sandbox) -> None:
    """A day's partition exists at least until the day's start plus the partition expiration."""
    ages = range(EXPIRATION_DAYS - 2, EXPIRATION_DAYS + 3)
    left = sandbox.numbers(sandbox.new_table("boundary", [(sandbox.days_ago(age), 1, age) for age in ages]))
    sandbox.notes.append(f"Of the ages {ages.start} to {ages.stop - 1} days these are left: {left}.")
    assert set(range(EXPIRATION_DAYS - 2, EXPIRATION_DAYS)) <= set(left)


@rule(
    "Introduction to partitioned tables",
    f"{PARTITION_CHECKS} plugins/dedup_clone/engines/delivery_examination.py",
    "Nothing: no NULL date is loaded. Correct the name of the partition in checks/partition_checks.py.",
)
def test_rows_without_a_date_have_a_partition(sandbox: Sandbox) -> None:
    """Rows without a date are in the partition __NULL__."""
    sandbox.new_table("no_date", [(None, 1, 1), (sandbox.today, 1, 2)])
    assert sandbox.partitions("no_date") == {f"{sandbox.today:%Y%m%d}": 1, "__NULL__": 1}


@rule(
    "Introduction to partitioned tables; Query partitioned tables",
    f"{PARTITION_CHECKS} plugins/dedup_clone/warehouse/row_sql.py sql/ddl/create_staging.sql",
    "Let producers add a DATE, and name it as partition_column.",
)
def test_hours_belong_to_a_date_in_utc(sandbox: Sandbox) -> None:
    """Hours of a TIMESTAMP or DATETIME are partitions, in UTC; a filter on the date reads only the hours of the day."""
    for kind, zone, day in (("TIMESTAMP", "+00", "DATE(moment, 'UTC')"), ("DATETIME", "", "DATE(moment)")):
        name = f"hours_{kind.lower()}"
        table = sandbox.make(name, f"moment {kind}, number INT64", f"PARTITION BY {kind}_TRUNC(moment, HOUR)")
        moments = [f"{kind} '2026-01-{time}{zone}'" for time in ("01 23:59:59.999999", "02 00:00:00", "02 01:30:00")]
        sandbox.query(f"INSERT `{table}` VALUES ({moments[0]}, 1), ({moments[1]}, 2), ({moments[2]}, 3)")
        assert sandbox.partitions(name) == {"2026010123": 1, "2026010200": 1, "2026010201": 1}
        sql = f"SELECT number FROM `{table}` WHERE {day} = @day"
        read = sandbox.query(sql, {"day": date(2026, 1, 2)}, dry_run=True)
        assert read.total_bytes_processed == 2 * 16


@rule(
    "PARTITIONS view",
    f"{PARTITION_CHECKS} sql/checks/partitions.sql plugins/dedup_clone/engines/staging_job.py",
    "Give nobody else bigquery.tables.updateData on staging; the check cannot find others' changes.",
)
def test_a_partition_shows_its_last_change(sandbox: Sandbox) -> None:
    """A partition's last_modified_time is BigQuery's time of the load that wrote it."""
    table = sandbox.new_table("modified", [(sandbox.today, 1, 1)])
    (first,) = sandbox.partitions("modified", "last_modified_time").values()
    between = sandbox.now()
    sandbox.load(table, [(sandbox.today, 1, 2)])
    (second,) = sandbox.partitions("modified", "last_modified_time").values()
    assert first <= between < second


@rule(
    "PARTITIONS view; REST resource tables",
    f"{PARTITION_CHECKS} plugins/dedup_clone/warehouse/metadata.py",
    "Compare the expiration after each publish by hand, `bq show DATASET.TABLE`.",
)
def test_metadata_show_the_expiration(sandbox: Sandbox) -> None:
    """TABLE_OPTIONS and tables.get both show the partition expiration."""
    table = sandbox.new_table("expiration")
    options = sandbox.rows(
        f"""SELECT CAST(CAST(option_value AS FLOAT64) AS INT64) FROM {sandbox.view("TABLE_OPTIONS")}
        WHERE table_name = 'expiration' AND option_name = 'partition_expiration_days'"""
    )
    assert options == [(EXPIRATION_DAYS,)]
    expiration_ms = sandbox.client.get_table(table).time_partitioning.expiration_ms
    assert expiration_ms == EXPIRATION_DAYS * MILLISECONDS_PER_DAY


@rule(
    "Introduction to INFORMATION_SCHEMA",
    "sql/checks/partitions.sql docs/costs-and-limits.md",
    "Nothing: publishes cost more, by what was found for each metadata query.",
)
def test_a_metadata_query_bills_its_minimum(sandbox: Sandbox) -> None:
    """A query of one INFORMATION_SCHEMA view bills at most 10 MB."""
    job = sandbox.query(f"SELECT partition_id FROM {sandbox.view('PARTITIONS')} WHERE table_name = 'metadata'")
    sandbox.notes.append(f"Billed {job.total_bytes_billed} bytes.")
    assert (job.total_bytes_billed or 0) <= MAX_METADATA_BYTES


def thousand(sandbox: Sandbox, name: str) -> str:
    return sandbox.new_table(name, [(sandbox.today, key, key) for key in range(ROWS)])


@rule("Estimate and control costs", "sql/erasure/count_rows.sql", "Read row counts from `bq show`, which is free.")
def test_a_count_reads_nothing(sandbox: Sandbox) -> None:
    """COUNT(*) of a table processes no bytes."""
    table = thousand(sandbox, "counted")
    assert sandbox.query(f"SELECT COUNT(*) FROM `{table}`").total_bytes_processed == 0


@rule(
    "Estimate and control costs; Run a query",
    "plugins/dedup_clone/warehouse/jobs.py plugins/dedup_clone/publish/attempt_jobs.py",
    "Set `max_bytes_billed` of each feed, at which BigQuery stops a query by itself.",
)
def test_a_dry_run_says_what_a_query_reads(sandbox: Sandbox) -> None:
    """A dry run returns the logical bytes of the referenced columns of partitions that are left, and runs nothing."""
    table = thousand(sandbox, "dry")
    sandbox.load(table, [(sandbox.days_ago(1), 1, 1)], "WRITE_APPEND")
    for where, expected in (("TRUE", (ROWS + 1) * 16), (f"day = DATE '{sandbox.today}'", ROWS * ROW_BYTES)):
        dry = sandbox.query(f"SELECT id, number FROM `{table}` WHERE {where}", dry_run=True)
        assert dry.total_bytes_processed == expected
    update = f"UPDATE `{table}` SET number = 7 WHERE day = DATE '{sandbox.today}' AND id = 0"
    assert sandbox.query(update, dry_run=True).total_bytes_processed >= ROWS * ROW_BYTES
    sandbox.refused(f"SELECT id, number FROM `{table}`", maximum_bytes_billed=1024)


@rule(
    "DML syntax; Update partitioned table data using DML",
    "plugins/dedup_clone/contract/costs.py docs/costs-and-limits.md",
    "Nothing: take costs of engine merge from the bill, not from the ledger's projection.",
)
def test_merge_bills_updated_partitions(sandbox: Sandbox) -> None:
    """MERGE processes what it scans and all bytes of updated partitions; a constant day in ON prunes the others."""
    table, source = thousand(sandbox, "merged"), sandbox.new_table("merge_source", [(sandbox.today, 1, 99)])
    sandbox.load(table, [(sandbox.days_ago(1), key, key) for key in range(ROWS)], "WRITE_APPEND")
    merge = (
        f"MERGE `{table}` t USING `{source}` s ON t.day = s.day AND t.id = s.id%s "
        "WHEN MATCHED THEN UPDATE SET number = s.number"
    )
    pruned = f" AND t.day = DATE '{sandbox.today}'"
    whole, one_day = (sandbox.query(merge % more).total_bytes_processed for more in ("", pruned))
    sandbox.notes.append(f"Processed {one_day} of {whole} bytes for a partition of {ROWS * ROW_BYTES}.")
    assert ROWS * ROW_BYTES <= one_day < whole


@rule("DML", "sql/engines/merge", "Set `engine: spark` or `engine: bigquery`.")
def test_merge_takes_one_source_row_for_a_target_row(sandbox: Sandbox) -> None:
    """MERGE is refused when two source rows match one target row."""
    table = sandbox.new_table("matched_twice", [(sandbox.today, 1, 1)])
    twice = "(SELECT 1 AS id, n FROM UNNEST([1, 2]) AS n)"
    sandbox.refused(f"MERGE `{table}` t USING {twice} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET number = s.n")
    assert sandbox.numbers(table) == [1]


@rule("DML syntax", "sql/engines/merge/merge.sql", "Set `engine: spark` or `engine: bigquery`, or keep absent keys.")
def test_merge_deletes_rows_that_the_source_lacks(sandbox: Sandbox) -> None:
    """NOT MATCHED BY SOURCE is every row for which ON holds with no source row, and its condition may spare some."""
    today, spared, outside = (sandbox.days_ago(days) for days in range(3))
    table = sandbox.new_table("lacking", [(today, 1, 1), (today, 2, 2), (spared, 1, 3), (outside, 1, 4)])
    source = f"(SELECT DATE '{today}' AS day, id, id + 6 AS number FROM UNNEST([1, 3]) AS id)"
    sandbox.query(
        f"MERGE `{table}` t USING {source} s ON t.day = s.day AND t.id = s.id AND t.day BETWEEN @first AND @last "
        "WHEN MATCHED THEN UPDATE SET number = s.number "
        "WHEN NOT MATCHED THEN INSERT (day, id, number) VALUES (s.day, s.id, s.number) "
        f"WHEN NOT MATCHED BY SOURCE AND t.day NOT IN UNNEST([DATE '{spared}']) THEN DELETE",
        {"first": spared, "last": today},
    )
    assert sandbox.numbers(table) == [3, 7, 9]


@rule(
    "Time travel; Manage configuration settings",
    "deploy/doctor/dataset.py deploy/terraform/dataset.tf",
    "`bq update --storage_billing_model=LOGICAL DATASET`",
)
def test_storage_is_billed_by_logical_bytes(sandbox: Sandbox) -> None:
    """A dataset is billed by logical bytes, which include time travel, unless somebody chose otherwise."""
    found = sandbox.rest().get("storageBillingModel")
    assert found in (None, "LOGICAL", "STORAGE_BILLING_MODEL_UNSPECIFIED"), "the project's default was changed"


@rule(
    "Time travel",
    "plugins/dedup_clone/warehouse/bigquery.py plugins/dedup_clone/operations/rollback.py",
    "`bq update --max_time_travel_hours=168 DATASET`",
)
def test_time_travel_is_seven_days(sandbox: Sandbox) -> None:
    """A dataset's time travel is seven days unless somebody chose otherwise."""
    assert str(sandbox.rest().get("maxTimeTravelHours", "168")) == "168"


@rule("Query partitioned tables", "sql/publish/swap_target.sql", "Set no `require_partition_filter`.")
def test_a_partition_filter_can_be_required(sandbox: Sandbox) -> None:
    """A table with require_partition_filter refuses queries and DML without a filter over its days."""
    table = sandbox.new_table("filtered", [(sandbox.today, 1, 1)])
    sandbox.query(f"ALTER TABLE `{table}` SET OPTIONS (require_partition_filter = TRUE)")
    sandbox.refused(f"SELECT COUNT(*) FROM `{table}`")
    sandbox.refused(f"DELETE FROM `{table}` WHERE id = 1")
    assert sandbox.rows(f"SELECT number FROM `{table}` WHERE day = DATE '{sandbox.today}'") == [(1,)]


# -- columns


@rule(
    "Specify nested and repeated columns; Modifying table schemas",
    "plugins/dedup_clone/warehouse/table_alterations.py",
    "Leave `mode: REQUIRED` of nested columns in the feed file, or rebuild the table.",
)
def test_a_nested_column_becomes_nullable(sandbox: Sandbox) -> None:
    """tables.patch makes a REQUIRED column, also a field of a STRUCT and of an ARRAY of STRUCTs, NULLABLE."""
    columns = "id INT64 NOT NULL, info STRUCT<x INT64 NOT NULL>, parts ARRAY<STRUCT<x INT64 NOT NULL>>"
    table = sandbox.make("relaxed", columns)
    alterations = TableAlterations(sandbox.client, project=sandbox.servers.project, dataset=sandbox.name)
    alterations.relax_columns("relaxed", ["id", "info.x", "parts.x"])
    nothing = "STRUCT(CAST(NULL AS INT64) AS x)"
    sandbox.query(f"INSERT INTO `{table}` (id, info, parts) VALUES (NULL, {nothing}, [{nothing}])")
    fields = sandbox.fields("relaxed")
    relaxed = [fields["id"], *(fields[name]["fields"][0] for name in ("info", "parts"))]
    assert [field.get("mode", "NULLABLE") for field in relaxed] == ["NULLABLE"] * 3


@rule(
    "DDL; Modifying table schemas",
    "sql/ddl/widen_column.sql",
    "Change the type by dedup_clone_rebuild.",
)
def test_a_type_becomes_wider(sandbox: Sandbox) -> None:
    """ALTER COLUMN widens a column or a whole STRUCT, keeps its rows, and refuses a narrower type."""
    table = sandbox.make("widened", "n INT64, s STRUCT<a INT64>")
    sandbox.query(f"INSERT INTO `{table}` VALUES (7, STRUCT(7 AS a))")
    alter = f"ALTER TABLE `{table}` ALTER COLUMN"
    for column, kind in (("n", "NUMERIC"), ("s", "STRUCT<a NUMERIC>")):
        sandbox.query(f"{alter} {column} SET DATA TYPE {kind}")
    sandbox.query(f"INSERT INTO `{table}` VALUES (NUMERIC '0.5', STRUCT(NUMERIC '0.5' AS a))")
    assert [tuple(map(float, row)) for row in sandbox.rows(f"SELECT n, s.a FROM `{table}` ORDER BY n")] == [
        (0.5, 0.5),
        (7.0, 7.0),
    ]
    sandbox.refused(f"{alter} n SET DATA TYPE INT64")


@rule(
    "Data types, parameterized data types",
    "plugins/dedup_clone/warehouse/table_options.py",
    "Nothing.",
    local="the stand-in stores no values of types with parameters",
)
def test_parameters_of_types_hold_for_writes(sandbox: Sandbox) -> None:
    """A value that does not fit STRING(3) or NUMERIC(5, 2) is refused; results of queries have no parameters."""
    table = sandbox.make("limited", "s STRING(3), n NUMERIC(5, 2)")
    for values in ("'abcd', 1", "'abc', 1000"):
        sandbox.refused(f"INSERT INTO `{table}` VALUES ({values})")
    sandbox.query(f"INSERT INTO `{table}` VALUES ('abc', 1)")
    sandbox.query(f"CREATE TABLE `{sandbox.table('result')}` AS SELECT s FROM `{table}`")
    assert "maxLength" not in sandbox.fields("result")["s"]


@rule("Specifying a schema", "plugins/dedup_clone/contract/table.py", "Nothing: such names are refused in feed files.")
def test_reserved_column_names_are_refused(sandbox: Sandbox) -> None:
    """A column name has at most 300 characters and none of the reserved prefixes."""
    for name in ("_FILE_x", "_TABLE_x", "_PARTITIONx", "x" * 301):
        sandbox.refused(f"CREATE TABLE `{sandbox.table('reserved')}` (`{name}` INT64)")


@rule("Work with arrays", "sql/checks", "Nothing.")
def test_an_array_of_a_result_has_no_null(sandbox: Sandbox) -> None:
    """A query whose result is an array with a NULL element is refused."""
    sandbox.refused("SELECT ARRAY_AGG(x) AS xs FROM UNNEST([1, NULL]) AS x")


@rule("Use primary and foreign keys; DDL", "plugins/dedup_clone/settings", "Set `primary_key: false`.")
def test_a_primary_key_has_limits(sandbox: Sandbox) -> None:
    """A primary key has at most 16 top-level columns, none of them of FLOAT64 or ARRAY."""
    for columns in (", ".join(f"c{number} INT64" for number in range(17)), "c FLOAT64", "c ARRAY<INT64>"):
        names = ", ".join(column.split()[0] for column in columns.split(", "))
        sandbox.refused(f"CREATE TABLE `{sandbox.table('keyed')}` ({columns}, PRIMARY KEY ({names}) NOT ENFORCED)")


@rule(
    "Run parameterized queries",
    "plugins/dedup_clone/warehouse/jobs.py",
    "Nothing: the client library adds the mode.",
)
def test_parameters_need_their_mode(sandbox: Sandbox) -> None:
    """A query with parameters is refused without parameterMode."""
    parameter = {"name": "x", "parameterType": {"type": "INT64"}, "parameterValue": {"value": "5"}}
    body = {"query": "SELECT @x", "useLegacySql": False, "queryParameters": [parameter]}
    with pytest.raises(BadRequest):
        sandbox.project_rest("queries", "POST", body)
    named = sandbox.project_rest("queries", "POST", {**body, "parameterMode": "NAMED"})
    assert named["rows"] == [{"f": [{"v": "5"}]}]


# -- tables, datasets and jobs as resources


@rule(
    "REST resource datasets; Update dataset properties",
    "plugins/dedup_clone/checks/table_checks.py",
    "Remove the dataset's default expirations.",
)
def test_new_tables_get_the_default_expiration_of_their_dataset(sandbox: Sandbox) -> None:
    """New tables get the dataset's default expiration, partitioned ones that of partitions."""
    with throwaway(sandbox.servers) as own:
        before = own.new_table("before", expiration_days=None)
        own.rest("", "PATCH", {"defaultTableExpirationMs": str(MILLISECONDS_PER_DAY)})
        made = own.new_table("made", expiration_days=None)
        own.query(f"CREATE OR REPLACE TABLE `{own.table('cloned')}` CLONE `{before}`")
        assert own.client.get_table(before).expires is None
        assert None not in [own.client.get_table(table).expires for table in (made, own.table("cloned"))]
        own.rest("", "PATCH", {"defaultPartitionExpirationMs": str(9 * MILLISECONDS_PER_DAY)})
        found = own.client.get_table(own.new_table("partitioned", expiration_days=None))
        assert (found.expires, found.time_partitioning.expiration_ms) == (None, 9 * MILLISECONDS_PER_DAY)


@rule("REST method tables.patch", "plugins/dedup_clone/warehouse/table_alterations.py", "Nothing.")
def test_a_table_is_changed_as_it_was_read(sandbox: Sandbox) -> None:
    """A change of a table that names an old etag is refused."""
    table = sandbox.new_table("etag")
    first, second = sandbox.client.get_table(table), sandbox.client.get_table(table)
    first.description, second.description = "first", "second"
    sandbox.client.update_table(first, ["description"])
    with pytest.raises(PreconditionFailed):
        sandbox.client.update_table(second, ["description"])


@rule(
    "Run a query; REST resource jobs",
    "plugins/dedup_clone/warehouse/bigquery.py plugins/dedup_clone/warehouse/metadata.py",
    "Nothing: the ledger lacks the bytes of the swap.",
)
def test_a_script_lists_its_child_jobs(sandbox: Sandbox) -> None:
    """A script's job counts its statements, and jobs.list shows what each of them billed."""
    job = sandbox.query("ASSERT TRUE AS 'never'; SELECT 1")
    children = list(sandbox.client.list_jobs(parent_job=job.job_id))
    assert (job.statement_type, job.num_child_jobs, len(children)) == ("SCRIPT", 2, 2)
    assert {child.statement_type for child in children} == {"ASSERT", "SELECT"}


@rule("Run a query", "plugins/dedup_clone/warehouse/jobs.py", "Nothing.")
def test_results_come_in_pages(sandbox: Sandbox) -> None:
    """The rows of a query's result, and of a table, are answered in pages."""
    table = sandbox.new_table("paged_rows", [(sandbox.today, key, key) for key in range(25)])
    query = sandbox.query(f"SELECT number FROM `{table}` ORDER BY number").result(page_size=10)
    for rows in (query, sandbox.client.list_rows(table, page_size=10)):
        pages = [page for page in ([row["number"] for row in page] for page in rows.pages) if page]
        assert [len(page) for page in pages] == [10, 10, 5]
        assert sorted(number for page in pages for number in page) == list(range(25))
