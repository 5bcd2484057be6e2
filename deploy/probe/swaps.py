"""Assumptions about readers and creation times at a swap, transactions, and materialised views over target."""

from __future__ import annotations

import threading

from google.auth.exceptions import GoogleAuthError

from deploy.probe.assumption import CannotTry, DoesNotHold, Register, expect
from deploy.probe.clones import expect_refusal, swap
from deploy.probe.probe_dataset import BudgetSpent, ProbeDataset

assumption = Register()
SWAPS_UNDER_READERS = 4
READER_ENDS_WITHIN_S = 60.0


@assumption(
    "swap-under-readers",
    statement="A query during a swap succeeds, and reads all rows of the old table or all rows of the new one",
    rule="Target is always available, and readers see one complete generation.",
    code=("sql/publish/swap_target.sql",),
    instead="Publish when nobody reads, or let readers repeat queries that fail during a swap.",
)
def swap_under_readers(probe: ProbeDataset) -> str:
    """A thread queries target again and again while target is swapped four times."""
    staging = probe.new_table("readers", [(probe.today, key, 0) for key in range(5)])
    target = probe.table("readers_target")
    swap(probe, target, staging)
    readers_must_stop, faults, right_answers = threading.Event(), list[str](), 0
    reader_stopped_by: Exception | None = None

    def read() -> None:
        nonlocal right_answers, reader_stopped_by
        while not readers_must_stop.is_set():
            try:
                ((low, high, rows),) = probe.rows(f"SELECT MIN(number), MAX(number), COUNT(*) FROM `{target}`")
                if low != high or rows != 5:
                    faults.append(f"a mixture of [{low}] and [{high}] in [{rows}] rows")
                else:
                    right_answers += 1
            except (BudgetSpent, GoogleAuthError, OSError) as error:  # not BigQuery's answer to a reader
                reader_stopped_by = error
                return
            except Exception as error:  # whatever error a reader gets, the assumption does not hold
                faults.append(str(error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        for number in range(1, SWAPS_UNDER_READERS + 1):
            probe.load(staging, [(probe.today, key, number) for key in range(5)])
            swap(probe, target, staging)
    finally:
        readers_must_stop.set()
        reader.join(READER_ENDS_WITHIN_S)
    if faults:
        raise DoesNotHold(f"{len(faults)} of {right_answers + len(faults)} answers are wrong, the first: {faults[0]}")
    if reader_stopped_by is not None:
        raise CannotTry(f"No reader was left: {reader_stopped_by}") from reader_stopped_by
    if not right_answers:
        raise CannotTry(f"No query was answered during {SWAPS_UNDER_READERS} swaps.")
    return f"{SWAPS_UNDER_READERS} swaps, {right_answers} answers, each with all rows of one table."


@assumption(
    "creation-time-after-replace",
    statement="CREATE OR REPLACE TABLE … CLONE gives target a new creation time, a load gives staging none",
    rule="A publish ends when target was created: lag and SLA are counted to then. A rollback clones staging as it was "
    "at any time since it was created.",
    code=(
        "plugins/dedup_clone/publish/commit.py",
        "plugins/dedup_clone/engines/direct_changes.py",
        "plugins/dedup_clone/publish/rollback/resolve_rollback.py",
    ),
    instead="Take `swapped_at` in publish/commit.py from the end of the swap's job, as for `cdc.publish: direct`.",
)
def creation_time_after_replace(probe: ProbeDataset) -> str:
    """Swaps twice, with a load between. Compares target's creation time with BigQuery's clock."""
    staging, target = probe.new_table("created", [(probe.today, 1, 1)]), probe.table("created_target")
    swap(probe, target, staging)
    made, between = probe.client.get_table(staging).created, probe.now()
    probe.load(staging, [(probe.today, 1, 2)])
    swap(probe, target, staging)
    replaced, now = probe.client.get_table(target).created, probe.now()
    expect("creation time of staging after a load", probe.client.get_table(staging).created, made)
    if replaced is None or not between < replaced <= now:
        raise DoesNotHold(f"target was replaced between [{between}] and [{now}], and was created [{replaced}].")
    return f"The second swap was after {between.isoformat()}, target was created {replaced.isoformat()}."


@assumption(
    "no-ddl-in-transaction",
    statement="CREATE OR REPLACE TABLE is refused inside a transaction",
    rule="The swap is a script with an assertion, not a transaction.",
    code=("sql/publish/swap_target.sql",),
    instead="Nothing: the project uses no transaction.",
)
def no_ddl_in_transaction(probe: ProbeDataset) -> str:
    """Tries a swap between BEGIN TRANSACTION and COMMIT."""
    staging = probe.new_table("transaction", [(probe.today, 1, 1)])
    script = (
        f"BEGIN TRANSACTION; CREATE OR REPLACE TABLE `{probe.table('transaction_target')}` CLONE `{staging}`; "
        "COMMIT TRANSACTION"
    )
    return expect_refusal(probe, script)


@assumption(
    "materialised-view-breaks",
    statement="A materialised view over a table that is replaced breaks",
    rule="A publish fails before the swap while a materialised view reads target.",
    code=("plugins/dedup_clone/checks/table_checks.py", "plugins/dedup_clone/warehouse/materialized_views.py"),
    instead="Nothing: the check refuses more than it must. Let the view read a view of target.",
)
def materialised_view_breaks(probe: ProbeDataset) -> str:
    """Makes a materialised view over target, swaps, and reads the view."""
    staging, target = probe.new_table("view_base", [(probe.today, 1, 1)]), probe.table("view_target")
    swap(probe, target, staging)
    view = probe.table("the_view")
    probe.query(f"CREATE MATERIALIZED VIEW `{view}` AS SELECT day, COUNT(*) AS n FROM `{target}` GROUP BY day")
    swap(probe, target, staging)
    return expect_refusal(probe, f"SELECT * FROM `{view}`", "deleted and recreated")
