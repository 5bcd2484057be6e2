"""Load jobs, extract jobs, and Parquet files in queries: what they replace, keep, refuse and cost."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.api_core.exceptions import BadRequest, Conflict, NotFound
from google.cloud import bigquery as google_bigquery

from tests.conformance.rules import rule
from tests.conformance.sandbox import MANIFEST, Sandbox
from tests.shared.damaged_parquet import enum_file

LONGEST_PENDING_S = 60.0
JOBS = "plugins/dedup_clone/publish/attempt_jobs.py"
LOAD = "plugins/dedup_clone/publish/load.py"
EXAMINATION = "plugins/dedup_clone/engines/delivery_examination.py"
PARQUET = "Loading Parquet data"
MOMENT = datetime(2026, 1, 31, 1, 2, 3)  # noqa: DTZ001  (a DATETIME has no zone)


@rule(
    "REST resource jobs; LOAD statements",
    f"{JOBS} {LOAD}",
    "Publish generations of at most 10,000 files, after `URI_LIST` is taken out of publish/load.py.",
)
def test_an_object_lists_the_files_of_a_load(sandbox: Sandbox) -> None:
    """A load job can read the URIs of its files from an object with one URI in each line."""
    table = sandbox.new_table("manifest")
    uris = [sandbox.upload([(sandbox.today, key, key)]) for key in (1, 2)]
    listed = sandbox.upload("\n".join(uris) + "\n", "list.txt")
    sandbox.load_uris(table, [listed], fileSetSpecType=MANIFEST)
    assert sandbox.numbers(table) == [1, 2]


@rule("Quotas; Loading Parquet data", f"{JOBS} {LOAD}", "Nothing: the product loads by such a list in any case.")
def test_a_load_names_at_most_ten_thousand_files(sandbox: Sandbox) -> None:
    """A load that names 10,001 URIs is refused; a list of URIs counts as one, and names no wildcards."""
    table, uri = sandbox.new_table("many"), sandbox.upload([(sandbox.today, 1, 1)])
    with pytest.raises(BadRequest):
        sandbox.load_uris(table, [uri] * 10_001)
    listed = sandbox.upload(f"gs://{sandbox.bucket.name}/*.parquet\n", "wildcard.txt")
    with pytest.raises((BadRequest, NotFound)):
        sandbox.load_uris(table, [listed], fileSetSpecType=MANIFEST)


@rule("Reliability guide", JOBS, "Clear a failed run from its first task only, when no job of it is running.")
def test_a_job_id_is_used_once(sandbox: Sandbox) -> None:
    """A second job with the id of another one is refused with status 409, and changes nothing."""
    table, uri = sandbox.new_table("once"), sandbox.upload([(sandbox.today, 1, 1)])
    job_id = f"dedup_clone_probe_{uuid.uuid4().hex}"
    sandbox.load_uris(table, [uri], "WRITE_APPEND", job_id=job_id)
    with pytest.raises(Conflict):
        sandbox.load_uris(table, [uri], "WRITE_APPEND", job_id=job_id)
    assert sandbox.client.get_table(table).num_rows == 1


@rule(
    "Reliability guide",
    f"{LOAD} plugins/dedup_clone/state/manifests.py",
    "Nothing: CURRENT says what staging holds only after the load succeeded, and the next load replaces all rows.",
)
def test_a_failed_load_changes_nothing(sandbox: Sandbox) -> None:
    """A load job with a file that is not Parquet fails, and leaves the table as it was."""
    table = sandbox.new_table("failing", [(sandbox.today, 1, 1)])
    uris = [sandbox.upload([(sandbox.today, 2, 2)]), sandbox.upload(b"this is no Parquet", "broken.parquet")]
    with pytest.raises(BadRequest):
        sandbox.load_uris(table, uris)
    assert sandbox.numbers(table) == [1]


@rule(
    "LOAD statements; bq command-line reference",
    f"spark_jobs/dedup_spark/plans/date_files.py {EXAMINATION}",
    "Nothing: files are copied, which is slower than a URI that names a generation.",
)
def test_a_uri_with_a_generation_is_refused(sandbox: Sandbox) -> None:
    """A load job refuses a URI with an object generation."""
    table, uri = sandbox.new_table("pinned"), sandbox.upload([(sandbox.today, 1, 1)], "pinned.parquet")
    blob = sandbox.bucket.get_blob("pinned.parquet")
    with pytest.raises((BadRequest, NotFound)):
        sandbox.load_uris(table, [f"{uri}#{blob.generation}"], "WRITE_APPEND")


@rule("none", JOBS, "Let producers write the columns in the order of the feed file.")
def test_columns_are_matched_by_name(sandbox: Sandbox) -> None:
    """A load job matches Parquet columns to the table's columns by name, in any order."""
    table = sandbox.new_table("by_name")
    sandbox.load(table, pa.table({"number": [9], "day": pa.array([sandbox.today], pa.date32()), "id": [1]}))
    assert sandbox.rows(f"SELECT day, id, number FROM `{table}`") == [(sandbox.today, 1, 9)]


@rule("REST resource jobs", LOAD, "Add the column by `ALTER TABLE … ADD COLUMN` before the first delivery that has it.")
def test_a_load_that_replaces_rows_adds_a_column(sandbox: Sandbox) -> None:
    """WRITE_TRUNCATE_DATA with ALLOW_FIELD_ADDITION adds a column of its files and keeps the rest."""
    table, clone = sandbox.new_table("grown", [(sandbox.today, 1, 1)]), sandbox.table("grown_clone")
    sandbox.query(f"ALTER TABLE `{table}` SET OPTIONS (description = 'kept')")
    day = pa.array([sandbox.today], pa.date32())
    uri = sandbox.upload(pa.table({"day": day, "id": [1], "number": [2], "colour": ["red"]}))
    with pytest.raises(BadRequest):
        sandbox.load_uris(table, [uri])
    sandbox.load_uris(table, [uri], schemaUpdateOptions=["ALLOW_FIELD_ADDITION"])
    found = sandbox.client.get_table(table)
    assert [f"{field.name} {field.mode}" for field in found.schema][3:] == ["colour NULLABLE"]
    assert found.description == "kept"
    sandbox.query(f"CREATE TABLE `{clone}` CLONE `{table}`")
    assert sandbox.rows(f"SELECT number, colour FROM `{clone}`") == [(2, "red")]


@rule(
    "Introduction to loading data; Workload management",
    "docs/costs-and-limits.md plugins/dedup_clone/freshness/operation_checks.py",
    "Buy a reservation of type PIPELINE, or raise `sla_minutes` of the feed.",
)
def test_a_load_starts_at_once(sandbox: Sandbox) -> None:
    """A load job is PENDING for at most a minute. (Only the ledger shows the throughput of large loads.)"""
    job = sandbox.load(sandbox.new_table("prompt"), [(sandbox.today, key, key) for key in range(50_000)])
    pending, took = job.started - job.created, job.ended - job.started
    sandbox.notes.append(f"PENDING {pending.total_seconds():.1f} s, running {took.total_seconds():.1f} s.")
    assert pending.total_seconds() <= LONGEST_PENDING_S


@rule(
    "Write API, REST; REST resource tables",
    "sql/checks/partitions.sql plugins/dedup_clone/checks/partition_checks.py",
    "Clear a run that failed at check_staging from this task, some minutes later.",
)
def test_counts_are_exact_after_a_load(sandbox: Sandbox) -> None:
    """Rows of a load job are never in a streaming buffer, and counts are exact at once."""
    days = [sandbox.days_ago(number) for number in range(3)]
    table = sandbox.new_table("counts", [(day, key, 0) for day in days for key in range(7)])
    found = sandbox.client.get_table(table)
    assert (found.streaming_buffer, found.num_rows) == (None, 21)
    assert list(sandbox.partitions("counts").values()) == [7, 7, 7]


@rule(
    "Loading Parquet data; REST resource tables, ParquetOptions",
    JOBS,
    "Declare ARRAY columns only if the tables are written by engine `bigquery`.",
)
def test_lists_need_list_inference(sandbox: Sandbox) -> None:
    """A LIST of a Parquet file becomes an ARRAY with enableListInference, and a group is a STRUCT."""
    uri = sandbox.upload(pa.table({"tags": [["a", "b"], []], "pair": [{"x": 1}, None]}))
    table = sandbox.make("nested", "tags ARRAY<STRING>, pair STRUCT<x INT64>")
    sandbox.load_uris(table, [uri], parquetOptions={"enableListInference": True})
    found = sandbox.rows(f"SELECT tags, pair FROM `{table}` ORDER BY pair.x DESC")
    assert found == [(["a", "b"], {"x": 1}), ([], None)]


@rule("Loading Parquet data; Export table data", JOBS, "Declare TIMESTAMP in place of DATETIME.")
def test_a_datetime_needs_the_schema_of_the_job(sandbox: Sandbox) -> None:
    """A Parquet timestamp is a TIMESTAMP unless the load's schema says DATETIME, also in a STRUCT that has both."""
    kind = pa.struct([("utc_at", pa.timestamp("us")), ("local_at", pa.timestamp("us"))])
    uri = sandbox.upload(pa.table({"times": pa.array([{"utc_at": MOMENT, "local_at": MOMENT}], kind)}))
    table = sandbox.make("times", "times STRUCT<utc_at TIMESTAMP, local_at DATETIME>")
    with pytest.raises(BadRequest):
        sandbox.load_uris(table, [uri])
    fields = [{"name": "utc_at", "type": "TIMESTAMP"}, {"name": "local_at", "type": "DATETIME"}]
    sandbox.load_uris(table, [uri], schema={"fields": [{"name": "times", "type": "RECORD", "fields": fields}]})
    ((times,),) = sandbox.rows(f"SELECT times FROM `{table}`")
    assert times == {"utc_at": MOMENT.replace(tzinfo=UTC), "local_at": MOMENT}


@rule("Loading Parquet data; REST resource tables, ParquetOptions", JOBS, "Let producers write text, not ENUM.")
def test_an_enum_is_text_with_an_option(sandbox: Sandbox) -> None:
    """A column of ENUM is loaded as STRING with enumAsString, and as BYTES without."""
    uri = sandbox.upload(enum_file(pa.table({"kind": ["red"]}), "kind"))
    for as_string, kind in ((False, "BYTES"), (True, "STRING")):
        table = sandbox.table(f"enum_{kind}")
        sandbox.load_uris(table, [uri], parquetOptions={"enumAsString": as_string})
        assert sandbox.client.get_table(table).schema[0].field_type == kind


@rule("Loading Parquet data", f"{JOBS} {EXAMINATION}", "Nothing: loads name the schema, and files are examined.")
def test_the_last_file_gives_the_schema(sandbox: Sandbox) -> None:
    """Without a schema, the alphabetically last Parquet file gives the columns."""
    uris = [sandbox.upload(pa.table({"n": [1]}), "s/a"), sandbox.upload(pa.table({"n": [1], "m": ["x"]}), "s/b")]
    table = sandbox.table("last_schema")
    sandbox.load_uris(table, uris)
    assert [field.name for field in sandbox.client.get_table(table).schema] == ["n", "m"]


@rule("Loading Parquet data", JOBS, "Nothing: the Spark job and the examination refuse such files before the load.")
def test_a_changed_type_is_refused(sandbox: Sandbox) -> None:
    """A load refuses a column of another type than the table's, and a REQUIRED one that is NULL or missing."""
    day, table = pa.array([sandbox.today], pa.date32()), sandbox.new_table("typed")
    for number in (pa.array(["1"]), pa.array([1.5])):
        with pytest.raises(BadRequest):
            sandbox.load(table, pa.table({"day": day, "id": [1], "number": number}), "WRITE_APPEND")
    required = sandbox.make("required", "id INT64 NOT NULL, note STRING")
    for rows in (pa.table({"id": pa.array([None], pa.int64())}), pa.table({"note": ["x"]})):
        with pytest.raises(BadRequest):
            sandbox.load(required, rows, "WRITE_APPEND")
    assert sandbox.client.get_table(required).num_rows == 0


# -- exports


def extract(sandbox: Sandbox, table: str, folder: str) -> list[str]:
    """Export a table (with its dataset) to Parquet files in a new folder, and return their URIs."""
    config = google_bigquery.ExtractJobConfig(destination_format="PARQUET", compression="ZSTD")
    uri = f"gs://{sandbox.bucket.name}/{folder}/*.parquet"
    sandbox.client.extract_table(table, uri, job_config=config, location=sandbox.servers.location).result()
    return [f"gs://{sandbox.bucket.name}/{blob.name}" for blob in sandbox.bucket.list_blobs(prefix=f"{folder}/")]


@rule(
    "Quotas; Export table data",
    "plugins/dedup_clone/publish/parent_generation.py plugins/dedup_clone/operations/takeover.py",
    "Begin a feed with an empty target instead of dedup_clone_bootstrap, and keep its engine.",
)
def test_an_exported_table_is_loaded_again(sandbox: Sandbox) -> None:
    """A table, or one partition by its decorator, that is exported to Parquet and loaded again has the same rows."""
    days = (sandbox.days_ago(1), sandbox.today)
    table = sandbox.new_table("extract", [(days[0], 1, 5), (days[1], 2, 6)])
    for name, decorator, numbers in (("whole", "", [5, 6]), ("one_day", f"${days[1]:%Y%m%d}", [6])):
        copy = sandbox.new_table(f"extracted_{name}")
        sandbox.load_uris(copy, extract(sandbox, table + decorator, f"extract_{name}"))
        assert sandbox.numbers(copy) == numbers


# -- files in queries


def reading(*uris: str, **options: Any) -> dict[str, google_bigquery.ExternalConfig]:
    """The files as the temporary external table `landed`. `options`: more fields of the REST API."""
    external = google_bigquery.ExternalConfig("PARQUET")
    external.source_uris = list(uris)
    external._properties.update(options)
    return {"landed": external}


QUERIES_FILES = f"{EXAMINATION} sql/engines/examine_delivery.sql"
QUERIES_FILES_PAGES = "REST resource tables; Query Cloud Storage data in external tables"


@rule(QUERIES_FILES_PAGES, QUERIES_FILES, "Set `engine: spark`.")
def test_a_query_reads_parquet_files(sandbox: Sandbox) -> None:
    """A query or INSERT reads Parquet files as a temporary external table with the column _FILE_NAME."""
    uri, table = sandbox.upload([(sandbox.today, 1, 3)]), sandbox.new_table("inserted")
    rows = sandbox.rows("SELECT number, _FILE_NAME AS file FROM landed", table_definitions=reading(uri))
    assert rows == [(3, uri)]
    sandbox.query(f"INSERT `{table}` SELECT * FROM landed", table_definitions=reading(uri))
    assert sandbox.numbers(table) == [3]


@rule(QUERIES_FILES_PAGES, QUERIES_FILES, "Set `engine: spark`.")
def test_an_object_lists_the_files_of_a_query(sandbox: Sandbox) -> None:
    """A query reads the files that an object lists."""
    uri = sandbox.upload([(sandbox.today, 1, 3)])
    listed = reading(sandbox.upload(uri, "query_list.txt"), fileSetSpecType=MANIFEST)
    assert sandbox.rows("SELECT number FROM landed", table_definitions=listed) == [(3,)]


@rule(QUERIES_FILES_PAGES, QUERIES_FILES, "Set `engine: spark`.")
def test_queries_of_files_have_limits(sandbox: Sandbox) -> None:
    """In a query, files take no schema and no script, _FILE_NAME needs an alias, and a damaged file is named."""
    uri, damaged = sandbox.upload([(sandbox.today, 1, 3)]), sandbox.upload(b"this is no Parquet", "damaged.parquet")
    fields = {"fields": [{"name": "number", "type": "INTEGER"}]}
    sandbox.refused("SELECT number FROM landed", table_definitions=reading(uri, schema=fields))
    sandbox.refused("SELECT 1; SELECT number FROM landed", table_definitions=reading(uri))
    sandbox.refused("SELECT _FILE_NAME FROM landed", table_definitions=reading(uri))
    sandbox.refused("SELECT number FROM landed", "damaged.parquet", table_definitions=reading(uri, damaged))


@rule(
    "Loading Parquet data; REST resource tables, ParquetOptions",
    "plugins/dedup_clone/publish/partition_comparison.py sql/audit/compare_partition.sql",
    "Set `content_audit: {enabled: false}`.",
)
def test_a_query_compares_a_table_with_files(sandbox: Sandbox) -> None:
    """One query reads a table and Parquet files, where a DATETIME is a TIMESTAMP and a LIST an array."""
    table = sandbox.make("compared_with_files", "tags ARRAY<STRING>, moment DATETIME")
    sandbox.query(f"INSERT `{table}` VALUES (['a', 'b'], DATETIME '{MOMENT}')")
    uri = sandbox.upload(pa.table({"tags": [["a", "b"]], "moment": pa.array([MOMENT], pa.timestamp("us"))}))
    text = "ARRAY_TO_STRING(tags, ',') AS tags"
    sql = f"""
        SELECT {text}, UNIX_MICROS(TIMESTAMP(moment, 'UTC')) AS moment FROM `{table}`
        UNION ALL SELECT {text}, UNIX_MICROS(moment) FROM landed"""
    found = sandbox.rows(sql, table_definitions=reading(uri, parquetOptions={"enableListInference": True}))
    assert found == [("a,b", 1_769_821_323_000_000)] * 2


@rule(
    "Introduction to partitioned tables",
    "plugins/dedup_clone/checks/partition_checks.py spark_jobs/dedup_spark/landing/deliveries.py",
    "Nothing: such dates are refused before the load.",
)
def test_distant_days_have_no_partition(sandbox: Sandbox) -> None:
    """Rows of days before 1960 and after 2159 are in the partition __UNPARTITIONED__."""
    days = [date(1, 1, 1), date(1959, 12, 31), date(1960, 1, 1), date(2159, 12, 31), date(2160, 1, 1)]
    sandbox.new_table("distant", [(day, 1, 1) for day in days], expiration_days=None)
    assert sandbox.partitions("distant") == {"19600101": 1, "21591231": 1, "__UNPARTITIONED__": 3}
