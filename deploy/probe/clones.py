"""Assumptions about CLONE: the swap, what a clone inherits, what BigQuery refuses, and rollbacks."""

from __future__ import annotations

from datetime import datetime

from google.api_core.exceptions import BadRequest

from dedup_clone.warehouse.metadata import table_metadata
from deploy.probe.assumption import DoesNotHold, Register, expect
from deploy.probe.probe_dataset import MILLISECONDS_PER_DAY, ProbeDataset

assumption = Register()


def expect_refusal(probe: ProbeDataset, sql: str, words: str = "") -> str:
    """Run a statement that BigQuery must refuse, and return its message. `words`: text that the message must contain.

    Raises DoesNotHold if BigQuery carries the statement out, or if its message does not contain `words`.
    """
    try:
        probe.query(sql)
    except BadRequest as error:
        message = str(error.errors[0].get("message", error)) if error.errors else str(error)
        if words.lower() not in message.lower():
            raise DoesNotHold(f"Refused, but for another reason: {message}") from error
        return f"Refused: {message}"
    raise DoesNotHold(f"Carried out: {sql}")


def swap(probe: ProbeDataset, target: str, staging: str, at: datetime | None = None) -> None:
    """Replace target by a clone of staging as it is, or as it was at the time `at`."""
    as_of, parameters = (" FOR SYSTEM_TIME AS OF @at", {"at": at}) if at else ("", {})
    probe.query(f"CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`{as_of}", parameters)


@assumption(
    "clone-replaces",
    statement="CREATE OR REPLACE TABLE … CLONE replaces an existing clone",
    rule="The swap is one statement; target is never dropped.",
    code=("sql/publish/swap_target.sql",),
    instead="Publish nothing: no other statement replaces a table at once and without reading it.",
)
def clone_replaces(probe: ProbeDataset) -> str:
    """Clones staging onto the same target twice. Before the second time staging is loaded with another row."""
    staging, target = probe.new_table("replaces", [(probe.today, 1, 1)]), probe.table("replaces_target")
    swap(probe, target, staging)
    probe.load(staging, [(probe.today, 1, 2)])
    expect("rows before the second swap", probe.numbers(target), [1])
    swap(probe, target, staging)
    expect("rows after the second swap", probe.numbers(target), [2])
    return "Target had the new row only after the second swap, although staging was loaded before it."


@assumption(
    "clone-in-script-with-parameters",
    statement="Inside IF in a script, CLONE takes FOR SYSTEM_TIME AS OF @parameter and OPTIONS with parameters",
    rule="The swap asserts the parent and clones staging as it was checked, in one job.",
    code=("sql/publish/swap_target.sql", "plugins/dedup_clone/orchestration/shared/swap_job.py"),
    instead="Publish nothing until swap_target.sql is rendered with constants in place of the parameters.",
)
def clone_in_script(probe: ProbeDataset) -> str:
    """Runs a script that is built like that of the swap. T, description, label and expiration are query parameters."""
    staging, target = probe.new_table("script", [(probe.today, 1, 1)]), probe.table("script_target")
    checked_at = probe.now()
    probe.load(staging, [(probe.today, 1, 2)])
    probe.query(
        f"""DECLARE live STRING DEFAULT '';
        IF live != @generation THEN
          ASSERT live = '' AS 'somebody else published';
          CREATE OR REPLACE TABLE `{target}` CLONE `{staging}` FOR SYSTEM_TIME AS OF @checked_at
          OPTIONS (partition_expiration_days = @days, description = @description,
                   labels = [('dedup_clone_generation', @generation)]);
        END IF""",
        {"generation": "7", "checked_at": checked_at, "days": 365, "description": "from a parameter"},
    )
    made = probe.client.get_table(target)
    expect("rows as of T", probe.numbers(target), [1])
    expect("description", made.description, "from a parameter")
    expect("label", made.labels.get("dedup_clone_generation"), "7")
    expect("expiration", made.time_partitioning.expiration_ms, 365 * MILLISECONDS_PER_DAY)
    return "The clone has the rows as of T, and the description, label and expiration of the parameters."


@assumption(
    "labels-as-text",
    statement='INFORMATION_SCHEMA.TABLE_OPTIONS writes labels as [STRUCT("name", "value"), …]',
    rule="The swap reads the generation of target from this text, and asserts that it is the parent's.",
    code=("sql/publish/swap_target.sql",),
    instead="Correct the regular expression of swap_target.sql to the text that was found.",
)
def labels_as_text(probe: ProbeDataset) -> str:
    """Reads a label with the regular expression of sql/publish/swap_target.sql."""
    table = probe.new_table("labels")
    probe.query(f"ALTER TABLE `{table}` SET OPTIONS (labels = [('dedup_clone_generation', '41'), ('other', 'x')])")
    found = probe.rows(
        f"""SELECT REGEXP_EXTRACT(option_value, r'"dedup_clone_generation", "([0-9]+)"'), option_value
        FROM {probe.view("TABLE_OPTIONS")} WHERE table_name = 'labels' AND option_name = 'labels'"""
    )
    expect("generation in the text", found[0][0] if found else None, "41")
    return f"The text is {found[0][1]}"


@assumption(
    "clone-time",
    statement="tables.get shows a clone's base, and the time that FOR SYSTEM_TIME AS OF gave",
    rule="A check after the swap requires that target is a clone of staging as of T.",
    code=("plugins/dedup_clone/checks/table_checks.py", "plugins/dedup_clone/publish/commit.py"),
    instead="Publish nothing: every publish would end as failed after its swap.",
)
def clone_time(probe: ProbeDataset) -> str:
    """Compares cloneDefinition with the base and T of the statement, and TABLES.table_type with CLONE."""
    staging, target = probe.new_table("clone_time", [(probe.today, 1, 1)]), probe.table("clone_time_target")
    at = probe.now()
    swap(probe, target, staging, at)
    found = table_metadata(probe.client.get_table(target))
    if found.clone_of is None or found.clone_time is None:
        raise DoesNotHold("target has no cloneDefinition with base and time.")
    expect("base", found.clone_of, "clone_time")
    apart_ms = abs((found.clone_time - at).total_seconds()) * 1000
    if apart_ms >= 1:
        raise DoesNotHold(f"cloneTime is [{found.clone_time}], expected [{at}] to the millisecond.")
    types = probe.rows(f"SELECT table_type FROM {probe.view('TABLES')} WHERE table_name = 'clone_time_target'")
    expect("table_type", types, [("CLONE",)])
    return f"cloneTime {found.clone_time.isoformat()}, table_type CLONE."


@assumption(
    "other-partitioning-refused",
    statement="A clone does not replace a table that is partitioned differently",
    rule="check_staging compares the layouts of staging and target, and fails before the swap.",
    code=("plugins/dedup_clone/checks/table_checks.py",),
    instead="Nothing: the check is stricter than BigQuery.",
)
def other_partitioning(probe: ProbeDataset) -> str:
    """Clones a partitioned table over one without partitions."""
    staging, target = probe.new_table("partitioning", [(probe.today, 1, 1)]), probe.table("partitioning_target")
    probe.query(f"CREATE TABLE `{target}` (day DATE, id INT64, number INT64)")
    return expect_refusal(probe, f"CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`", "different partitioning")


@assumption(
    "other-clustering-refused",
    statement="A clone does not replace a table that is clustered differently",
    rule="check_staging compares the layouts of staging and target, and fails before the swap.",
    code=("plugins/dedup_clone/checks/table_checks.py",),
    instead="Nothing: the check is stricter than BigQuery.",
)
def other_clustering(probe: ProbeDataset) -> str:
    """Clones a table that is clustered by id over one that is clustered by number."""
    staging = probe.new_table("clustering", [(probe.today, 1, 1)])
    target = probe.new_table("clustering_target", clustering=("number",))
    return expect_refusal(probe, f"CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`")


@assumption(
    "clone-without-options",
    statement="Without OPTIONS, a clone has no partition expiration, labels or description, even if its base has them",
    rule="The swap always sets all three, and checks after the swap compare them.",
    code=("sql/publish/swap_target.sql", "plugins/dedup_clone/checks/option_checks.py"),
    instead="Remove from staging what the clone should not have: `ALTER TABLE … SET OPTIONS`.",
)
def clone_without_options(probe: ProbeDataset) -> str:
    """Clones, without OPTIONS, a table with expiration, labels and description, and reads which the clone has."""
    staging, target = probe.new_table("no_options", [(probe.today, 1, 1)]), probe.table("no_options_target")
    swap(probe, target, staging)
    made = probe.client.get_table(target)
    carried = {
        "expiration": made.time_partitioning.expiration_ms is not None,
        "labels": bool(made.labels),
        "description": made.description is not None,
    }
    expect("options that the clone has", sorted(name for name, there in carried.items() if there), [])
    return "The clone has none of the three."


@assumption(
    "clone-keeps-layout",
    statement="A clone has its base's schema, partitioning and clustering",
    rule="No later swap is refused because the layouts of staging and target differ.",
    code=("sql/publish/swap_target.sql", "plugins/dedup_clone/checks/table_checks.py"),
    instead="Publish nothing: every second publish would stop at the check layout.",
)
def clone_keeps_layout(probe: ProbeDataset) -> str:
    """Compares schema, partitioning and clustering of a clone with those of its base."""
    staging, target = probe.new_table("layout", [(probe.today, 1, 1)]), probe.table("layout_target")
    swap(probe, target, staging)
    base, made = probe.client.get_table(staging), probe.client.get_table(target)
    expect("schema", made.schema, base.schema)
    expect("partition column", made.time_partitioning.field, base.time_partitioning.field)
    expect("clustering", made.clustering_fields, base.clustering_fields)
    return "All three are equal."


@assumption(
    "clone-depth",
    statement="The fourth clone in a chain is refused",
    rule="Staging stays a base table; target is a clone of it, never of a clone.",
    code=("sql/publish/swap_target.sql", "plugins/dedup_clone/publish/planning/staging_table.py"),
    instead="Nothing: the project makes no clone of a clone.",
)
def clone_depth(probe: ProbeDataset) -> str:
    """Clones a clone of a clone of a clone."""
    last = probe.new_table("depth0", [(probe.today, 1, 1)])
    for depth in (1, 2, 3):
        following = probe.table(f"depth{depth}")
        swap(probe, following, last)
        last = following
    return expect_refusal(probe, f"CREATE TABLE `{probe.table('depth4')}` CLONE `{last}`")


@assumption(
    "clone-back",
    statement="Staging as it was before a load can be cloned to target",
    rule="A rollback within time travel loads nothing.",
    code=("plugins/dedup_clone/publish/rollback/resolve_rollback.py",),
    instead="Replay the snapshot in place of FEED_rollback.",
)
def clone_back(probe: ProbeDataset) -> str:
    """Loads two snapshots into staging, and clones staging as of a time between the two loads."""
    staging, target = probe.new_table("back", [(probe.today, 1, 1)]), probe.table("back_target")
    at = probe.now()
    probe.load(staging, [(probe.today, 1, 2)])
    swap(probe, target, staging)
    swap(probe, target, staging, at)
    expect("rows", probe.numbers(target), [1])
    return "The first snapshot's rows are back."


@assumption(
    "time-travel-after-replace",
    statement="A table's past from before CREATE OR REPLACE can be read",
    rule="An operator can look at what readers saw before a swap.",
    code=("docs/runbook.md",),
    instead="Roll back to look at an earlier generation; do not rely on FOR SYSTEM_TIME AS OF of target.",
)
def time_travel_after_replace(probe: ProbeDataset) -> str:
    """Reads target FOR SYSTEM_TIME AS OF a time before its second swap."""
    staging, target = probe.new_table("past", [(probe.today, 1, 1)]), probe.table("past_target")
    swap(probe, target, staging)
    at = probe.now()
    probe.load(staging, [(probe.today, 1, 2)])
    swap(probe, target, staging)
    rows = probe.rows(f"SELECT number FROM `{target}` FOR SYSTEM_TIME AS OF @at", {"at": at})
    expect("rows before the swap", rows, [(1,)])
    return "The replaced rows can be read."
