"""Assumptions about load and extract jobs: what they replace, keep, refuse and cost."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from google.api_core.exceptions import BadRequest, Conflict, NotFound

from deploy.probe.assumption import DoesNotHold, Register, expect
from deploy.probe.probe_dataset import ProbeDataset

if TYPE_CHECKING:
    import pyarrow as pa

assumption = Register()
LONGEST_PENDING_S = 60.0
MANIFEST = "FILE_SET_SPEC_TYPE_NEW_LINE_DELIMITED_MANIFEST"  # the job's URI names a list of URIs


@assumption(
    "uri-manifest",
    statement="A load job can read the URIs of its files from an object with one URI in each line",
    rule="One load job loads all files of a generation, which such an object lists.",
    code=("plugins/dedup_clone/publish/attempt_jobs.py", "plugins/dedup_clone/publish/load.py"),
    instead="Publish generations of at most 10,000 files, after `URI_LIST` is taken out of publish/load.py.",
)
def uri_manifest(probe: ProbeDataset) -> str:
    """Loads two files that an object lists."""
    table = probe.new_table("manifest")
    uris = [probe.upload([(probe.today, key, key)]) for key in (1, 2)]
    probe.bucket.blob("list.txt").upload_from_string("\n".join(uris) + "\n")
    probe.load_uris(table, [f"gs://{probe.bucket.name}/list.txt"], "WRITE_TRUNCATE_DATA", file_set=MANIFEST)
    expect("rows", probe.numbers(table), [1, 2])
    return "Both files were loaded."


@assumption(
    "job-id-once",
    statement="A second job with the id of another one is refused with status 409",
    rule="A retried task finds its job by the id, and cannot run it twice.",
    code=("plugins/dedup_clone/publish/attempt_jobs.py",),
    instead="Clear a failed run from its first task only, when no job of it is running.",
)
def job_id_once(probe: ProbeDataset) -> str:
    """Starts the same load job twice with one id."""
    table, uri = probe.new_table("once"), probe.upload([(probe.today, 1, 1)])
    job_id = f"dedup_clone_probe_{uuid.uuid4().hex}"
    probe.load_uris(table, [uri], "WRITE_APPEND", job_id=job_id)
    try:
        probe.load_uris(table, [uri], "WRITE_APPEND", job_id=job_id)
    except Conflict:
        expect("rows", probe.client.get_table(table).num_rows, 1)
        return "The second job was refused with 409, and the table has one row."
    raise DoesNotHold("A second job with the same id was accepted.")


@assumption(
    "failed-load-changes-nothing",
    statement="A load job that fails leaves the table as it was",
    rule="After a failed load staging has the rows from before it, and the load is tried again.",
    code=("plugins/dedup_clone/publish/load.py", "plugins/dedup_clone/state/staging.py"),
    instead="Nothing: STAGING says `loading` until the load succeeded, and the next load replaces all rows.",
)
def failed_load_changes_nothing(probe: ProbeDataset) -> str:
    """Loads, in one job, a valid file and a file that is not Parquet."""
    table = probe.new_table("failing", [(probe.today, 1, 1)])
    probe.bucket.blob("broken.parquet").upload_from_string(b"this is no Parquet")
    uris = [probe.upload([(probe.today, 2, 2)]), f"gs://{probe.bucket.name}/broken.parquet"]
    try:
        probe.load_uris(table, uris, "WRITE_TRUNCATE_DATA")
    except BadRequest as error:
        expect("rows", probe.numbers(table), [1])
        return f"The load failed, and the table has its old row: {str(error)[:120]}"
    raise DoesNotHold("The broken file was loaded.")


@assumption(
    "uri-without-generation",
    statement="A load job refuses a URI with an object generation",
    rule="A URI cannot name one version of an object, so files are copied to the state bucket before they are loaded.",
    code=("spark_jobs/dedup_spark/plans/adopt", "plugins/dedup_clone/engines/delivery_examination.py"),
    instead="Nothing: files are copied, which is slower than a URI that names a generation.",
)
def uri_without_generation(probe: ProbeDataset) -> str:
    """Starts a load of gs://BUCKET/OBJECT#GENERATION."""
    table, uri = probe.new_table("pinned"), probe.upload([(probe.today, 1, 1)], "pinned.parquet")
    blob = probe.bucket.get_blob("pinned.parquet")
    try:
        probe.load_uris(table, [f"{uri}#{blob.generation if blob else 0}"], "WRITE_APPEND")
    except (BadRequest, NotFound) as error:  # other errors, such as a missing right, say nothing about the URI
        return f"Refused: {str(error)[:120]}"
    raise DoesNotHold("The URI with a generation was loaded.")


@assumption(
    "columns-by-name",
    statement="A load job matches Parquet columns to the table's columns by name, in any order",
    rule="A delivery's files may have their columns in any order.",
    code=("plugins/dedup_clone/publish/attempt_jobs.py",),
    instead="Let producers write the columns in the order of the feed file.",
)
def columns_by_name(probe: ProbeDataset) -> str:
    """Loads a file whose columns are in another order than the table's."""
    import pyarrow as pa

    table = probe.new_table("by_name")
    uri = upload(probe, {"number": pa.array([9]), "day": pa.array([probe.today], pa.date32()), "id": pa.array([1])})
    probe.load_uris(table, [uri], "WRITE_TRUNCATE_DATA")
    expect("rows", probe.rows(f"SELECT day, id, number FROM `{table}`"), [(probe.today, 1, 9)])
    return "Each value is in the column of its name."


@assumption(
    "truncate-data-adds-columns",
    statement="A load with WRITE_TRUNCATE_DATA and ALLOW_FIELD_ADDITION adds a column of its files, and keeps the rest",
    rule="The publish after a new column in the feed file adds it to staging by its load job.",
    code=("plugins/dedup_clone/publish/load.py",),
    instead="Add the column to staging by `ALTER TABLE … ADD COLUMN` before the first delivery that has it.",
)
def adds_columns(probe: ProbeDataset) -> str:
    """Loads a file with one more column over a table with a column description, and clones the table."""
    import pyarrow as pa

    table, clone = probe.new_table("widened", [(probe.today, 1, 1)]), probe.table("widened_clone")
    probe.query(f"ALTER TABLE `{table}` SET OPTIONS (description = 'kept')")
    day = pa.array([probe.today], pa.date32())
    columns = {"day": day, "id": pa.array([1]), "number": pa.array([2]), "colour": pa.array(["red"])}
    probe.load_uris(table, [upload(probe, columns)], "WRITE_TRUNCATE_DATA", adds_columns=True)
    found = probe.client.get_table(table)
    expect("columns", [f"{f.name} {f.mode}" for f in found.schema][3:], ["colour NULLABLE"])
    expect("description", found.description, "kept")
    probe.query(f"CREATE TABLE `{clone}` CLONE `{table}`")
    expect("rows of a clone", probe.rows(f"SELECT number, colour FROM `{clone}`"), [(2, "red")])
    return "The table and its clone have the column with its values."


def upload(probe: ProbeDataset, columns: Mapping[str, pa.Array]) -> str:
    """Upload one Parquet file with these columns. Returns its URI."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content, name = io.BytesIO(), f"{uuid.uuid4().hex}.parquet"
    pq.write_table(pa.table(dict(columns)), content)
    probe.bucket.blob(name).upload_from_string(content.getvalue())
    return f"gs://{probe.bucket.name}/{name}"


@assumption(
    "load-is-prompt",
    statement="A load job is PENDING for at most a minute",
    rule="The latency budget in docs/hour.md.",
    code=("docs/hour.md", "plugins/dedup_clone/freshness/operation_checks.py"),
    instead="Buy a reservation of type PIPELINE, or raise `sla_minutes` of the feed.",
)
def load_is_prompt(probe: ProbeDataset) -> str:
    """Measures how long the load job of one small file is PENDING and RUNNING. It does not measure throughput."""
    table = probe.new_table("prompt")
    job = probe.load(table, [(probe.today, key, key) for key in range(50_000)])
    pending = (job.started - job.created).total_seconds()
    took = (job.ended - job.started).total_seconds()
    if pending > LONGEST_PENDING_S:
        raise DoesNotHold(f"PENDING for {pending:.1f} s, expected at most {LONGEST_PENDING_S:.0f}.")
    return f"PENDING {pending:.1f} s, running {took:.1f} s for 50,000 rows."


@assumption(
    "no-streaming-buffer-after-load",
    statement="Rows of a load job are never in a streaming buffer, and counts are exact at once",
    rule="Checks read the rows of each partition from metadata right after the load.",
    code=("sql/checks/partitions.sql", "plugins/dedup_clone/checks/partition_checks.py"),
    instead="Clear a run that failed at check_staging from this task, some minutes later.",
)
def counts_are_exact(probe: ProbeDataset) -> str:
    """Reads tables.get and PARTITIONS right after a load of three days."""
    days = [probe.days_ago(number) for number in range(3)]
    table = probe.new_table("counts", [(day, key, 0) for day in days for key in range(7)])
    found = probe.client.get_table(table)
    expect("streaming buffer", found.streaming_buffer, None)
    expect("rows", found.num_rows, 21)
    rows = probe.rows(f"SELECT total_rows FROM {probe.view('PARTITIONS')} WHERE table_name = 'counts'")
    expect("rows of each partition", rows, [(7,)] * 3)
    return "No streaming buffer; 21 rows in the table, 7 in each of three partitions."


@assumption(
    "extract-is-free",
    statement="A table that is exported to Parquet and loaded again has the same rows, and neither job is billed",
    rule="It is free to take over a table, and to publish with engine spark after an engine in SQL.",
    code=(
        "plugins/dedup_clone/publish/planning/partition_export.py",
        "plugins/dedup_clone/publish/bootstrap/existing_export.py",
    ),
    instead="Begin a feed with an empty target instead of FEED_bootstrap, and keep its engine.",
)
def extract_is_free(probe: ProbeDataset) -> str:
    """Exports a table, loads the files into another table, and compares the rows."""
    from google.cloud import bigquery

    table, copy = probe.new_table("extract", [(probe.today, 1, 5), (probe.today, 2, 6)]), probe.new_table("extracted")
    config = bigquery.ExtractJobConfig(  # type: ignore[no-untyped-call]
        destination_format="PARQUET", compression="ZSTD"
    )
    folder = f"gs://{probe.bucket.name}/extract"
    probe.client.extract_table(table, f"{folder}/*.parquet", job_config=config, location=probe.location).result()
    uris = [f"gs://{probe.bucket.name}/{blob.name}" for blob in probe.bucket.list_blobs(prefix="extract/")]
    probe.load_uris(copy, uris, "WRITE_TRUNCATE_DATA")
    expect("rows", probe.numbers(copy), [5, 6])
    return f"{len(uris)} files, and equal rows. Jobs of these two types have no billed bytes."


@assumption(
    "external-files-in-a-query",
    statement="A query can read Parquet files as a temporary external table with the column _FILE_NAME",
    rule="The engines in SQL examine a delivery before they load it.",
    code=("plugins/dedup_clone/engines/delivery_examination.py", "sql/engines/examine_delivery.sql"),
    instead="Set `engine: spark`.",
)
def external_files(probe: ProbeDataset) -> str:
    """Reads one file as an external table that is defined in the query job itself."""
    from google.cloud import bigquery

    uri = probe.upload([(probe.today, 1, 3)])
    external = bigquery.ExternalConfig("PARQUET")
    external.source_uris = [uri]
    config = bigquery.QueryJobConfig(table_definitions={"landed": external}, use_query_cache=False)
    job = probe.client.query(
        "SELECT number, _FILE_NAME AS file FROM landed", job_config=config, location=probe.location
    )
    rows = [tuple(row.values()) for row in job.result()]
    probe.billed_bytes += job.total_bytes_billed or 0
    expect("rows", json.dumps(rows), json.dumps([(3, uri)]))
    return "The query returned the row and the URI of its file."
