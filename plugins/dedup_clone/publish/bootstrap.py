"""First step of a bootstrap: an existing table is to become the feed's first generation.

Its rows are exported to state (free), judged and written there by the Spark job, loaded into staging, compared with the
table, and swapped in, under the lease and the intent that every publish has. Until the swap the table stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.existing_table import ExistingTable, TakenOver, keep_taken_over, look_at_table, say_partitions
from dedup_clone.publish.healing import heal
from dedup_clone.publish.lease import take_lease
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services
from dedup_clone.state.current import IntentKind

SNAPSHOT_UNKNOWN = 0


@dataclass(frozen=True)
class BootstrapTrigger:
    """Which table, and on which terms. `source_table` as for `look_at_table`; `drop_expired` accepts that rows older
    than the retention are left out; `compared_dates` are compared whole by two queries each."""

    dag_id: str
    run_id: str
    source_table: str
    duplicates: Duplicates
    drop_expired: bool
    compared_dates: int
    reason: str


def resolve_bootstrap(services: Services, trigger: BootstrapTrigger, version_shown: str) -> PublishOrder:
    """Heal, look once more, take the lease, note what is taken over. `version_shown` is the one that was approved.

    Raises LeaseHeld, LostRace, and BootstrapRefused when the table cannot be taken over or was changed meanwhile.
    """
    heal(services, dag_id=trigger.dag_id, run_id=trigger.run_id)
    existing = look_at_table(services, trigger.source_table)
    if existing.version != version_shown:
        raise BootstrapRefused(
            f"Table [{existing.name}] was changed since it was shown, and not by the bootstrap. Stop whatever writes "
            f"it, then trigger the bootstrap again."
        )
    refusals = refused_terms(existing, trigger)
    if refusals:
        raise BootstrapRefused(" ".join(refusals))
    intent = take_lease(services, IntentKind.BOOTSTRAP, trigger, parent=None)
    if services.warehouse.table(services.feed.staging) is None:
        services.warehouse.create_staging(services.names, services.feed.table.to_contract())
    keep_taken_over(services, intent.attempt, TakenOver(existing, trigger.duplicates, trigger.compared_dates))
    services.fact(
        f"takes the lease for attempt [{intent.attempt}]: takes over [{existing.name}], {existing.rows} rows in "
        f"{len(existing.partitions)} dates",
        generation=intent.generation,
    )
    return PublishOrder(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=None,
        engine=Engine.SPARK,
        snapshot_id=SNAPSHOT_UNKNOWN,
        request_uri=services.store.uri(services.layout.request(intent.attempt)),
        restores=None,
        restored_at=None,
        accepted_checks=(),
        reason=_reason(existing, trigger),
    )


def refused_terms(existing: ExistingTable, trigger: BootstrapTrigger) -> list[str]:
    """What the form has to say and does not."""
    if not existing.expired or trigger.drop_expired:
        return []
    return [
        f"Table [{existing.name}] has [{existing.expired_rows}] rows in [{len(existing.expired)}] dates before "
        f"[{existing.oldest}], which the feed's retention does not keep ({say_partitions(existing.expired)}): they "
        f"would not be in target. Accept that with [drop_expired], or raise retention_days in the feed's file."
    ]


def _reason(existing: ExistingTable, trigger: BootstrapTrigger) -> str:
    """As the ledger keeps it."""
    left_out = f", without [{existing.expired_rows}] rows before [{existing.oldest}]" if existing.expired else ""
    given = f": {trigger.reason}" if trigger.reason else ""
    return f"takes over [{existing.name}]{left_out}, duplicates [{trigger.duplicates}]{given}"
