"""The first task of a publish run: what it is to do, under the lease; or, asked for a dry run, what it would do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from dedup_clone.contract.errors import LeaseHeld
from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.connect import connect
from dedup_clone.orchestration.ends_dry_run import EndsDryRun
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.replay_request import read_trigger
from dedup_clone.publish.dry_run import dry_run
from dedup_clone.publish.dry_run_text import dry_run_text
from dedup_clone.publish.orders import Trigger
from dedup_clone.publish.resolve import resolve
from dedup_clone.publish.services import Services

LEASE_ASKED_FOR_EVERY = timedelta(seconds=10)


class ResolvePublishOperator(EndsDryRun):
    """Returns the order. Skips what follows when the delivery is accounted for already, and after a dry run.

    While another run is at work it waits for the lease, deferred: more runs than one may be active, because one that
    waits for an approval must not hold up an arrival.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        services = connect(self.setup)
        with failing_at_once():
            trigger = read_trigger(services, context)
            if context["params"]["dry_run"]:
                return self._dry_run(services, trigger, context)
            try:
                order = resolve(services, trigger)
            except LeaseHeld as held:
                self.log.info("waits for the lease: %s", held)
                self.defer(trigger=TimeDeltaTrigger(LEASE_ASKED_FOR_EVERY), method_name="ask_again")
        if isinstance(order, str):
            raise AirflowSkipException(order)
        return to_plain(order)  # type: ignore[no-any-return]

    def ask_again(self, context: Context, event: object = None) -> dict[str, Any]:
        """A while later: the lease may be free."""
        return self.execute(context)

    def _dry_run(self, services: Services, trigger: Trigger, context: Context) -> dict[str, Any]:
        """Everything after this task is skipped; its result is the preview, `text` for people."""
        found = dry_run(services, trigger)
        text = dry_run_text(found)
        services.fact(f"a publish would do this:\n{text}", snapshot_id=trigger.delivery.snapshot_id)
        result = {**to_plain(found), "text": text}
        self.end_dry_run(context, result)
        return result
