"""Retirement: takes a feed out of use, so that nothing watches or publishes it any more.

Its state and tables are deleted, target only on request. CURRENT says first that the feed is retired. From then on no
other run works on the feed, so that all later steps can be repeated until they succeed.
"""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import ConfigurationError, LostRace
from dedup_clone.contract.manifest import Manifest
from dedup_clone.operations.erase import drop_pending_changes, incoming_tables
from dedup_clone.publish.attempts import Form, acquire_lease
from dedup_clone.publish.declared_form import drop_once
from dedup_clone.publish.early_checks import find_previous
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.reporting import retired_row
from dedup_clone.publish.resolve import waiting_names
from dedup_clone.publish.services import Services
from dedup_clone.state.current import Retirement, TargetAction
from dedup_clone.state.layout import generation_of
from dedup_clone.state.ledger import ReportingBacklog
from dedup_clone.state.store import in_parallel


@dataclass(frozen=True, kw_only=True)
class RetirementRequest(Form):
    """The form of a retirement run. `target`: whether target is kept or dropped."""

    target: TargetAction


def preview(services: Services, request: RetirementRequest) -> tuple[None, str]:
    """What the retirement would do, as Markdown. It does that whatever has changed since."""
    services.current.read_for(services.environment)
    live = _require_retirable(services, request)
    feed, days = services.feed, services.feed.table.retention_days
    views = services.warehouse.materialized_views_of(feed.target)
    target = {
        TargetAction.KEEP: f"stays as it is, for its readers. Its partitions go on expiring after {days} days, so it "
        f"will be empty then. Keys of a person can **no longer be erased** from it: do that before, or choose [drop] "
        f"(docs/feeds.md, retire a feed)",
        TargetAction.DROP: "is **dropped**. BigQuery's time travel can restore it for some days",
    }[request.target]
    shown = f"generation {live.generation}, snapshot {live.snapshot_id}, {live.rows} rows" if live else "nothing"
    lines = [
        f"**Retire {feed.feed}**",
        "",
        f"- Live: {shown}.",
        f"- Target [{feed.target}] {target}.",
        f"- Tables [{feed.staging}] and, if it exists, [{services.names.changes_table}] are dropped.",
        f"- Deleted in [{services.store.uri(f'{services.layout.feed}/')}]: data files, manifests, arrivals, attempts. "
        f"Kept: the ledger, records of erasures with the secret of their hashes, and CURRENT, which says what was "
        f"done.",
        "- The feed leaves the page, the watchdog's checks and the status view. Its rows in the ledger table stay.",
        f"- Deliveries that wait and will not be published: {waiting_names(services, live)}. Landing stays as it is.",
        f"- Materialized views over target: {', '.join(views) or 'none'}.",
        "- Afterwards delete the feed's file and release that (`make deploy`): until then its DAGs do nothing.",
    ]
    return None, "\n".join(lines)


def prepare(services: Services, request: RetirementRequest, shown: None) -> Retirement:
    """Recover a dead run, acquire the lease, and write the record, which releases it.

    If an earlier try has written the record, return that. Raises ConfigurationError if another run has.
    """
    current = services.current.read()
    if current.retired is not None:
        if current.retired.run_id != request.run_id:
            current.require_in_use()  # it may have decided otherwise about target
        return current.retired
    recover(services, request)
    live = _require_retirable(services, request)
    intent = acquire_lease(services, request, Kind.RETIRE, live.generation if live else None)
    record = Retirement(
        retired_at=services.now(),
        run_id=request.run_id,
        reason=request.reason,
        target=request.target,
        attempt=intent.attempt,
        generation=intent.parent,
    )
    services.current.retire(intent.attempt, record)
    return record


def carry_out(services: Services, record: Retirement) -> None:
    """Do what the record says. Safe to repeat, even by a task that only seemed dead when the feed is used again.

    Raises ConfigurationError if CURRENT does not say any more that the feed is retired.
    """
    names, own = services.names, generation_of(record.attempt) or 0
    drop_pending_changes(services, before=own)
    for table in incoming_tables(services, before=own):
        services.warehouse.alterations.drop(table)
    tables = {"staging": names.staging_table, "changes": names.changes_table}
    if record.target is TargetAction.DROP:
        tables["target"] = names.target_table
    for previous in find_previous(services, before=own):
        tables["previous"] = previous
    _require_retired(services, record)
    for kind, table in tables.items():
        drop_once(services, record.attempt, f"drop_{kind}", table)
    _delete_state(services, record)
    services.log(f"retired: target [{record.target}]", generation=record.generation)


def _require_retirable(services: Services, request: RetirementRequest) -> Manifest | None:
    """The live generation's manifest; None without one.

    Raises ConfigurationError if target is to be dropped, and may be somebody else's table.
    """
    live, target = services.find_live(), services.feed.target
    if live is not None:
        return live
    if request.target is TargetAction.DROP and services.warehouse.table(target) is not None:
        raise ConfigurationError(
            f"Target [{target}] cannot be dropped: feed [{services.feed.feed}] has no live generation, so the table is "
            f"not its own. Nothing was changed: choose [keep]."
        )
    return None


def _require_retired(services: Services, record: Retirement) -> None:
    retired = services.current.read().retired
    if retired is None or retired.attempt != record.attempt:
        raise ConfigurationError(
            f"Feed [{services.feed.feed}] is used again since run [{record.run_id}] retired it: nothing more was "
            f"deleted."
        )


def _delete_state(services: Services, record: Retirement) -> None:
    """Delete the feed's state, except records of what happened, and the seed.

    Without the seed nobody could recognize erased keys.
    """
    layout, store = services.layout, services.store
    retained = (layout.current, layout.ledger, layout.erasures, layout.fingerprint_seed)
    found = [info for info in store.objects(f"{layout.feed}/") if not info.name.startswith(retained)]
    _require_retired(services, record)  # so none of these objects belongs to the feed if it is used again
    deleted = in_parallel(lambda i: store.delete(i.name, expected_object_generation=i.object_generation), found)
    if not all(deleted):
        raise LostRace(f"State of feed [{layout.feed}] was changed meanwhile: this task tries again by itself.")
    ReportingBacklog(store).add_row(
        layout.feed, record.attempt, retired_row(layout.feed, record)
    )  # the watchdog loads it
    store.delete_prefix(layout.freshness)
