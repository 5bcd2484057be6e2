"""The forms of the operations that a person starts, and what the filled forms ask for."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from airflow.sdk import Param

from dedup_clone.contract.attempt import Duplicates
from dedup_clone.contract.records import from_plain, to_plain
from dedup_clone.operations import bootstrap, erase, rebuild, retire, rollback
from dedup_clone.orchestration.operation import Operation, given_reason, required_reason
from dedup_clone.orchestration.step import FeedRun
from dedup_clone.orchestration.watchdog.feed_check import forget_if_retired
from dedup_clone.publish.attempts import Form, best_effort
from dedup_clone.state.current import TargetAction

F = TypeVar("F", bound=Form)


def _read(kind: type[F], run: FeedRun) -> F:
    """What the filled form asks for. A field that is empty has the default of `kind`."""
    filled = {name: value for name, value in run.form.items() if value is not None}
    given = {**filled, "dag_id": run.dag_id, "run_id": run.run_id, "reason": given_reason(run)}
    return from_plain(kind, given, where=f"the form of {run.dag_id}")


def _operation(name: str, module: Any, kind: type[Form]) -> Operation:
    """The operation of this module. `kind`: what its form asks for."""
    return Operation(name, partial(_read, kind), module.preview, module.prepare)


def _takeover_fields() -> dict[str, Param]:
    """By default the run is refused if it would leave out duplicates."""
    return {
        "duplicates": Param(
            str(Duplicates.REFUSE),
            type="string",
            enum=[str(policy) for policy in Duplicates],
            title="Duplicates",
            description="What to do if several rows have the same key: end the run and name their dates, or keep of "
            "each key the row with the highest update id (of several such rows the one with the greatest values).",
        ),
    }


def bootstrap_fields() -> dict[str, Param]:
    return {
        **_takeover_fields(),
        "reason": required_reason("Why the table is taken over; stored in the ledger."),
    }


BOOTSTRAP = _operation("a bootstrap", bootstrap, bootstrap.BootstrapRequest)


def rebuild_fields() -> dict[str, Param]:
    return {
        "renamed": Param(
            {},
            type=["null", "object"],
            additionalProperties={"type": "string"},
            title="Renamed columns",
            description='Former and new names, as {"colour": "color"}. Without an entry a column that the feed file '
            "lacks is dropped, and one that only the file has is new.",
        ),
        **_takeover_fields(),
        "reason": required_reason("Why the table is rebuilt; stored in the ledger."),
    }


REBUILD = _operation("a rebuild", rebuild, rebuild.RebuildRequest)


def rollback_fields() -> dict[str, Param]:
    """Both are required. The first task refuses a generation that cannot be restored."""
    return {
        "generation": Param(
            None,
            type="integer",
            minimum=1,
            title="Generation",
            description="The generation whose content readers should see again. The page Snapshots lists the "
            "generations that can be restored; so does the error of the first task if this one cannot be restored. "
            "While another run is at work, the first task waits for its end.",
        ),
        "reason": required_reason("Why the generation is restored; stored in the ledger."),
    }


ROLLBACK = _operation("a rollback", rollback, rollback.RollbackRequest)


def erasure_fields() -> dict[str, Param]:
    """No field takes the keys: Airflow keeps what is typed into a form in its database and in its audit log."""
    return {
        "keys_file": Param(
            "",
            type="string",
            pattern=r"^[A-Za-z0-9_.-]+$",
            title="File of keys",
            description="The name of a CSV file in FEED/to_erase/ of the state bucket: a header with key columns, then "
            "one key a line. The run deletes it at its end.",
        ),
        "reason": required_reason(
            "Why the keys are erased, such as the number of a request; stored in the ledger for ever. Name "
            "no person here."
        ),
    }


ERASE = _operation("an erasure", erase, erase.ErasureRequest)


def retirement_fields() -> dict[str, Param]:
    """By default readers keep target."""
    return {
        "target": Param(
            str(TargetAction.KEEP),
            type="string",
            enum=[str(action) for action in TargetAction],
            title="Target",
            description="keep: leave the table to its readers, as it is. drop: drop it.",
        ),
        "reason": required_reason("Why the feed is retired; stored in state."),
    }


RETIRE = _operation("a retirement", retire, retire.RetirementRequest)


def retire_feed(run: FeedRun, show_task: str) -> dict[str, Any]:
    """Takes the feed out of use and returns the record of the retirement."""
    record, services = RETIRE.begin(run, show_task), run.services
    with best_effort(services, "who was told of an incident may not be told that it ended"):
        forget_if_retired(services.store, services.feed.feed, services.environment, run.setup.deployment.alerts)
    retire.carry_out(services, record)
    return to_plain(record)  # type: ignore[no-any-return]
