"""Assumptions about readers during a swap, about transactions, and about materialised views over target."""

from __future__ import annotations

import threading

from deploy.probe.assumption import DoesNotHold, Register
from deploy.probe.clones import expect_refusal, swap
from deploy.probe.probe_dataset import ProbeDataset

assumption = Register()
SWAPS_UNDER_READERS = 4


@assumption(
    "swap-under-readers",
    statement="A query during a swap succeeds, and reads all rows of the old table or all rows of the new one",
    rule="Target is always available, and readers see one complete generation.",
)
def swap_under_readers(probe: ProbeDataset) -> str:
    """A thread queries target again and again while target is swapped four times."""
    staging = probe.new_table("readers", [(probe.today, key, 0) for key in range(5)])
    target = probe.table("readers_target")
    swap(probe, target, staging)
    readers_must_stop, faults, answers = threading.Event(), list[str](), list[tuple[int, int]]()

    def read() -> None:
        while not readers_must_stop.is_set():
            try:
                ((low, high, rows),) = probe.rows(f"SELECT MIN(number), MAX(number), COUNT(*) FROM `{target}`")
                answers.append((low, high))
                if low != high or rows != 5:
                    faults.append(f"a mixture of [{low}] and [{high}] in [{rows}] rows")
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
        reader.join(60)
    if faults:
        raise DoesNotHold(f"{len(faults)} of {len(answers) + len(faults)} answers are wrong, the first: {faults[0]}")
    return f"{SWAPS_UNDER_READERS} swaps, {len(answers)} answers, each with all rows of one table."


@assumption(
    "no-ddl-in-transaction",
    statement="CREATE OR REPLACE TABLE is refused inside a transaction",
    rule="The swap is a script with an assertion, not a transaction.",
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
)
def materialised_view_breaks(probe: ProbeDataset) -> str:
    """Makes a materialised view over target, swaps, and reads the view."""
    staging, target = probe.new_table("view_base", [(probe.today, 1, 1)]), probe.table("view_target")
    swap(probe, target, staging)
    view = probe.table("the_view")
    probe.query(f"CREATE MATERIALIZED VIEW `{view}` AS SELECT day, COUNT(*) AS n FROM `{target}` GROUP BY day")
    swap(probe, target, staging)
    return expect_refusal(probe, f"SELECT * FROM `{view}`", "deleted and recreated")
