"""Assumptions about partitions: when they expire, where rows without a date are, and when a partition last changed."""

from __future__ import annotations

from deploy.probe.assumption import DoesNotHold, Register, expect
from deploy.probe.probe_dataset import EXPIRATION_DAYS, MILLISECONDS_PER_DAY, ProbeDataset

assumption = Register()


def partition_ids(probe: ProbeDataset, table: str) -> list[str]:
    """The sorted ids of a table's partitions."""
    name = table.split(".")[-1]
    found = probe.rows(f"SELECT partition_id FROM {probe.view('PARTITIONS')} WHERE table_name = '{name}' ORDER BY 1")
    return [identifier for (identifier,) in found if identifier is not None]


@assumption(
    "expired-day-vanishes",
    statement="Rows of a day that is older than the partition expiration are gone as soon as they are loaded",
    rule="Dates older than the retention are dropped and counted before the load.",
    code=("spark_jobs/dedup_spark/landing/delivery_validation.py", "plugins/dedup_clone/checks/partition_checks.py"),
    instead="Set `retention_days` to more than the oldest delivered date.",
)
def expired_day_vanishes(probe: ProbeDataset) -> str:
    """Loads a row of today and a row of a day that is 30 days older than the partition expiration."""
    table = probe.new_table("expired", [(probe.today, 1, 1), (probe.days_ago(EXPIRATION_DAYS + 30), 1, 2)])
    expect("rows left", probe.numbers(table), [1])
    return "The table has today's row only."


@assumption(
    "boundary-of-expiration",
    statement="A day's partition exists at least until the day's start plus the partition expiration",
    rule="The check of rows by partition tolerates that a partition near this time is missing or still exists.",
    code=("plugins/dedup_clone/checks/partition_checks.py",),
    instead="Set `retention_days` one or two days higher than needed.",
)
def boundary_of_expiration(probe: ProbeDataset) -> str:
    """Loads rows of the days 728 to 732 days ago, and reads which of these days the table has."""
    ages = range(EXPIRATION_DAYS - 2, EXPIRATION_DAYS + 3)
    table = probe.new_table("boundary", [(probe.days_ago(age), 1, age) for age in ages])
    left = probe.numbers(table)
    missing = sorted(set(range(EXPIRATION_DAYS - 2, EXPIRATION_DAYS)) - set(left))
    if missing:
        raise DoesNotHold(f"Partitions of these ages in days are gone already: {missing}.")
    return f"Partitions of {ages.start} to {ages.stop - 1} days were loaded; those of these ages are left: {left}."


@assumption(
    "dates-without-value",
    statement="Rows without a date are in the partition __NULL__",
    rule="NULL dates are refused before anything is loaded.",
    code=("plugins/dedup_clone/checks/partition_checks.py", "plugins/dedup_clone/engines/delivery_examination.py"),
    instead="Nothing: no NULL date is loaded. Correct the name of the partition in checks/partition_checks.py.",
)
def dates_without_value(probe: ProbeDataset) -> str:
    """Loads a row without a date and reads the partitions."""
    table = probe.new_table("no_date", [(None, 1, 1), (probe.today, 1, 2)])
    expect("partitions", partition_ids(probe, table), [f"{probe.today:%Y%m%d}", "__NULL__"])
    return "The row without a date is in __NULL__."


@assumption(
    "last-modified-of-partitions",
    statement="A partition's last_modified_time is BigQuery's time of the load that wrote it",
    rule="A check requires that no partition of staging was modified after T.",
    code=(
        "plugins/dedup_clone/checks/partition_checks.py",
        "sql/checks/partitions.sql",
        "plugins/dedup_clone/engines/staging_job.py",
    ),
    instead="Give nobody else bigquery.tables.updateData on staging; the check cannot find others' changes.",
)
def last_modified(probe: ProbeDataset) -> str:
    """Loads twice, and compares last_modified_time after each load with a time between the two loads."""
    table = probe.new_table("modified", [(probe.today, 1, 1)])
    query = f"SELECT last_modified_time FROM {probe.view('PARTITIONS')} WHERE table_name = 'modified'"
    ((first,),) = probe.rows(query)
    between = probe.now()
    probe.load(table, [(probe.today, 1, 2)])
    ((second,),) = probe.rows(query)
    if not first <= between < second:
        raise DoesNotHold(f"First load [{first}], then [{between}], second load [{second}]: not in this order.")
    return f"The first load shows {first.isoformat()}, the second {second.isoformat()}: before and after that time."


@assumption(
    "expiration-in-metadata",
    statement="TABLE_OPTIONS and tables.get both show the partition expiration",
    rule="A check after the swap compares target's partition expiration with the retention.",
    code=("plugins/dedup_clone/checks/partition_checks.py", "plugins/dedup_clone/warehouse/metadata.py"),
    instead="Compare the expiration after each publish by hand, `bq show DATASET.TABLE`.",
)
def expiration_in_metadata(probe: ProbeDataset) -> str:
    """Reads the partition expiration of one table from TABLE_OPTIONS and from tables.get."""
    table = probe.new_table("expiration")
    options = probe.rows(
        f"""SELECT CAST(CAST(option_value AS FLOAT64) AS INT64) FROM {probe.view("TABLE_OPTIONS")}
        WHERE table_name = 'expiration' AND option_name = 'partition_expiration_days'"""
    )
    expect("days in TABLE_OPTIONS", options, [(EXPIRATION_DAYS,)])
    partitioning = probe.client.get_table(table).time_partitioning
    expect("days in tables.get", partitioning.expiration_ms // MILLISECONDS_PER_DAY, EXPIRATION_DAYS)
    return f"{EXPIRATION_DAYS} days in both."
