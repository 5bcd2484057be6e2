"""Assumptions about the swap among others: readers meanwhile, transactions, views that depend on target."""

from __future__ import annotations

import threading

from deploy.probe.assumption import DoesNotHold, Register
from deploy.probe.clones import refused, swap
from deploy.probe.world import World

assumption = Register()
SWAPS_UNDER_READERS = 4


@assumption(
    "swap-under-readers",
    says="A query during a swap reads the old table or the new one, whole, without an error (F1)",
    rule="Readers always get an answer, never half a snapshot.",
)
def swap_under_readers(world: World) -> str:
    """One thread reads target all the time while it is swapped four times."""
    staging = world.new_table("readers", [(world.today, key, 0) for key in range(5)])
    target = world.table("readers_target")
    swap(world, target, staging)
    done, faults, answers = threading.Event(), list[str](), list[tuple[int, int]]()

    def read() -> None:
        while not done.is_set():
            try:
                ((low, high, rows),) = world.rows(f"SELECT MIN(number), MAX(number), COUNT(*) FROM `{target}`")
                answers.append((low, high))
                if low != high or rows != 5:
                    faults.append(f"a mixture of [{low}] and [{high}] in [{rows}] rows")
            except Exception as error:  # every way in which a reader can fail is the finding
                faults.append(str(error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for number in range(1, SWAPS_UNDER_READERS + 1):
        world.load(staging, [(world.today, key, number) for key in range(5)])
        swap(world, target, staging)
    done.set()
    reader.join(60)
    if faults:
        raise DoesNotHold(f"{len(faults)} of {len(answers) + len(faults)} answers are wrong, the first: {faults[0]}")
    return f"{SWAPS_UNDER_READERS} swaps, {len(answers)} answers, all whole."


@assumption(
    "no-ddl-in-transaction",
    says="CREATE OR REPLACE TABLE is refused inside a transaction (F10)",
    rule="The swap is a script with an assertion, not a transaction.",
)
def no_ddl_in_transaction(world: World) -> str:
    """Tries a swap between BEGIN TRANSACTION and COMMIT."""
    staging = world.new_table("transaction", [(world.today, 1, 1)])
    script = (
        f"BEGIN TRANSACTION; CREATE OR REPLACE TABLE `{world.table('transaction_target')}` CLONE `{staging}`; "
        "COMMIT TRANSACTION"
    )
    return refused(world, script)


@assumption(
    "materialised-view-breaks",
    says="A materialised view over a table that is replaced breaks (F6)",
    rule="No publish while one depends on target.",
)
def materialised_view_breaks(world: World) -> str:
    """Makes a view over target, swaps, and reads the view."""
    staging, target = world.new_table("view_base", [(world.today, 1, 1)]), world.table("view_target")
    swap(world, target, staging)
    view = world.table("the_view")
    world.query(f"CREATE MATERIALIZED VIEW `{view}` AS SELECT day, COUNT(*) AS n FROM `{target}` GROUP BY day")
    swap(world, target, staging)
    return refused(world, f"SELECT * FROM `{view}`", "deleted and recreated")
