"""Assumptions about billed bytes (metadata, dry runs, MERGE), and the dataset's billing model and time travel."""

from __future__ import annotations

from deploy.probe.assumption import DoesNotHold, Register, expect
from deploy.probe.probe_dataset import ProbeDataset

assumption = Register()
MAX_METADATA_BYTES = 10 * 1024**2  # BigQuery's minimum for each table or view; a metadata query bills no more
ROWS = 1000
ROW_BYTES = 24  # three values of eight logical bytes


def make_table(probe: ProbeDataset, name: str) -> str:
    """Make a table with ROWS rows, and return its full name."""
    return probe.new_table(name, [(probe.today, key, key) for key in range(ROWS)])


@assumption(
    "metadata-query-bills-its-minimum",
    statement="A query of one INFORMATION_SCHEMA view bills at most 10 MB",
    rule="The queries of a publish cost less than 0.001 USD.",
    code=("sql/checks/partitions.sql", "docs/costs.md"),
    instead="Nothing: publishes cost more, by what was found for each metadata query.",
)
def metadata_query(probe: ProbeDataset) -> str:
    """Reads the partitions of one table."""
    make_table(probe, "metadata")
    job = probe.query(f"SELECT partition_id FROM {probe.view('PARTITIONS')} WHERE table_name = 'metadata'")
    billed = job.total_bytes_billed or 0
    if billed > MAX_METADATA_BYTES:
        raise DoesNotHold(f"Billed [{billed}] bytes, expected at most [{MAX_METADATA_BYTES}].")
    return f"Billed {billed} bytes."


@assumption(
    "count-reads-nothing",
    statement="COUNT(*) of a table processes no bytes",
    rule="Row counts may be queried at any time.",
    code=("sql/erasure/count_rows.sql",),
    instead="Read row counts from `bq show`, which is free.",
)
def count_reads_nothing(probe: ProbeDataset) -> str:
    """Runs COUNT(*) and reads how many bytes its job processed."""
    table = make_table(probe, "counted")
    job = probe.query(f"SELECT COUNT(*) FROM `{table}`")
    expect("bytes processed", job.total_bytes_processed, 0)
    return "No bytes processed."


@assumption(
    "dry-run-returns-bytes",
    statement="A dry run returns the logical bytes of the referenced columns and bills nothing",
    rule="Previews show costs before anything is spent.",
    code=("plugins/dedup_clone/warehouse/jobs.py", "plugins/dedup_clone/publish/attempt_jobs.py"),
    instead="Set `max_bytes_billed` of each feed, at which BigQuery stops a query by itself.",
)
def dry_run(probe: ProbeDataset) -> str:
    """Asks by a dry run how many bytes a query of two columns would process. Each value has eight bytes."""
    from google.cloud import bigquery

    table = make_table(probe, "dry")
    config = bigquery.QueryJobConfig(dry_run=True, use_query_cache=False)
    job = probe.client.query(f"SELECT id, number FROM `{table}`", job_config=config, location=probe.location)
    expect("bytes", job.total_bytes_processed, ROWS * 16)
    return f"{ROWS * 16} bytes for {ROWS} rows of two columns."


@assumption(
    "merge-counts-updated-partitions",
    statement="MERGE with an UPDATE processes the bytes that it scans and all bytes of each updated partition",
    rule="docs/costs.md and the ledger compute by this rule what MERGE would cost.",
    code=("plugins/dedup_clone/contract/billing.py", "docs/costs.md"),
    instead="Nothing: take costs of engine merge from the bill, not from the ledger's projection.",
)
def merge_counts(probe: ProbeDataset) -> str:
    """Updates one row of one partition by MERGE, and compares the processed bytes with the partition's size."""
    table, source = make_table(probe, "merged"), probe.new_table("merge_source", [(probe.today, 1, 99)])
    job = probe.query(
        f"MERGE `{table}` t USING `{source}` s ON t.day = s.day AND t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET number = s.number"
    )
    processed, size = job.total_bytes_processed or 0, ROWS * ROW_BYTES
    if processed < size:
        raise DoesNotHold(f"Processed [{processed}] bytes, expected at least the partition's [{size}].")
    return f"Processed {processed} bytes for a partition of {size}."


@assumption(
    "storage-billed-by-logical-bytes",
    statement="A dataset is billed by logical bytes unless somebody chose otherwise",
    rule="Only then is time travel free of charge, at six full loads a day. `make doctor` checks the billing model.",
    code=("deploy/doctor/dataset.py", "deploy/terraform/dataset.tf"),
    instead="`bq update --storage_billing_model=LOGICAL DATASET`",
)
def billing_model(probe: ProbeDataset) -> str:
    """Reads storageBillingModel of a new dataset."""
    found = probe.rest(f"datasets/{probe.name}").get("storageBillingModel")
    if found not in (None, "LOGICAL", "STORAGE_BILLING_MODEL_UNSPECIFIED"):
        raise DoesNotHold(f"storageBillingModel is [{found}]: the project's default was changed.")
    return f"storageBillingModel is [{found or 'not set'}]."


@assumption(
    "time-travel-window",
    statement="A dataset's time travel is seven days unless somebody chose otherwise",
    rule="A rollback clones a generation from within these seven days; it loads an older one from its files.",
    code=("plugins/dedup_clone/warehouse/bigquery.py", "plugins/dedup_clone/publish/rollback/resolve_rollback.py"),
    instead="`bq update --max_time_travel_hours=168 DATASET`",
)
def time_travel_window(probe: ProbeDataset) -> str:
    """Reads maxTimeTravelHours of a new dataset."""
    found = probe.rest(f"datasets/{probe.name}").get("maxTimeTravelHours", "168")
    expect("hours", str(found), "168")
    return "168 hours."
