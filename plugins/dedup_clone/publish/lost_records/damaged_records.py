"""Finds damaged records that would stop a run or a report, and that can safely be deleted or made again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dedup_clone.checks.check_result import CheckResults
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import to_json
from dedup_clone.contract.request import DedupRequest
from dedup_clone.publish.lost_records.record_change import RecordChange
from dedup_clone.publish.records.attempt_records import find_check_results
from dedup_clone.publish.records.held_deliveries import HeldDelivery
from dedup_clone.publish.records.ledger_table import ledger_row
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import SwapSpec
from dedup_clone.state.arrivals import Refusal
from dedup_clone.state.audits import Audits
from dedup_clone.state.current import Current
from dedup_clone.state.feed_status import StatusRow, status_object
from dedup_clone.state.layout import delivery_of, generation_of
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.pending_changes import URIS, PendingChanges, PendingChangesFolder
from dedup_clone.state.reporting_backlog import ReportingBacklog, ReportingWriter, row_text
from dedup_clone.state.staging import Staging
from dedup_clone.state.store import in_parallel


@dataclass(frozen=True)
class _Record:
    """A record to examine. `kind`: its type; `dict` for a JSON object whose fields are not checked.

    `replacement`: what a damaged record is replaced by; None: it is deleted. `consequence`: what happens then.
    """

    kind: type
    name: str
    consequence: str
    replacement: str | None = None


def changes_of_damaged_records(services: Services) -> list[RecordChange]:
    """A planned deletion or replacement for each damaged record, except CURRENT, manifests and file lists.

    `plan_recovery` itself makes CURRENT again, and copies manifests and file lists from records of their attempts.
    """
    found = in_parallel(lambda record: _change_if_damaged(services, record), list(_records_to_examine(services)))
    return [change for change in found if change is not None]


def _records_to_examine(services: Services) -> Iterator[_Record]:
    layout, store = services.layout, services.store
    yield _Record(Staging, layout.staging, "the next publish loads the whole table")
    for kind, folder, consequence in (
        (Arrival, layout.arrivals, "FEED_watch writes it anew if landing still has the marker"),
        (Refusal, layout.refused, "the delivery is validated again"),
        (HeldDelivery, layout.held, "the delivery is published, or held again"),
    ):
        names = [info.name for info in store.objects(folder)]
        yield from (_Record(kind, name, consequence) for name in names if delivery_of(name, folder) is not None)
    for name in [info.name for info in store.objects(layout.ledger) if generation_of(info.name) is not None]:
        yield _Record(LedgerRecord, name, "the table dedup_clone_ledger has a copy")
    audits = "all partitions are audited again; until then, what was found unequal before is not known"
    yield _Record(Audits, layout.audits, audits)
    for name in [info.name for info in store.objects(layout.incidents) if info.name.endswith(".json")]:
        yield _Record(dict, name, "the watchdog reports the incident again, if it is still open")
    yield _Record(StatusRow, status_object(services.feed.feed), "the next commit writes it")
    yield from _records_of_lease(services)
    yield from _records_of_reporting(services)


def _records_of_lease(services: Services) -> Iterator[_Record]:
    """The records of the attempt that holds the lease."""
    layout, name = services.layout, services.layout.current
    current = services.store.parse_if_sound(Current, name, services.store.read(name))
    if current is None or current.intent is None:
        return
    attempt = current.intent.attempt
    yield _Record(Candidate, layout.candidate(attempt), "the next run ends its attempt")
    yield _Record(SwapSpec, layout.swap_spec(attempt), "the next run ends its attempt")
    yield _Record(DedupRequest, layout.request(attempt), "the next run ends its attempt")
    for phase in ("before", "after"):
        yield _Record(CheckResults, layout.check_results(attempt, phase), "the page lacks these results")


def _records_of_reporting(services: Services) -> Iterator[_Record]:
    """The records of what the reporting tables and `FEED_changes` still lack. No publish needs these records."""
    backlog, feed = ReportingBacklog(services.store), services.feed.feed
    yield _Record(ReportingWriter, backlog.writer, "the next load of the reporting tables writes it")
    for attempt in backlog.attempts(feed):
        record = services.store.read_if_sound(LedgerRecord, services.layout.ledger_record(attempt))
        row, consequence = None, "the ledger table lacks this attempt, whose ledger record is lost too"
        if record is not None:
            results = [find_check_results(services, attempt, phase) for phase in ("before", "after")]
            row = row_text(ledger_row(record, tuple(r for r in results if r is not None)))
            consequence = "made again from the ledger record"
        yield _Record(dict, backlog.name(feed, attempt), consequence, row)
    folder = PendingChangesFolder(services.store, feed)
    for attempt in folder.attempts():
        uris_file = f"{services.layout.changes_folder(attempt)}{URIS}"
        for info in services.store.stat([uris_file]):
            changes = PendingChanges(attempt, generation_of(attempt) or 0, info.created_at.date(), uris_file)
            consequence = "made again; its load begins anew"
            yield _Record(PendingChanges, folder.name(attempt), consequence, to_json(changes))


def _change_if_damaged(services: Services, record: _Record) -> RecordChange | None:
    stored = services.store.read(record.name)
    if stored is None or services.store.parse_if_sound(record.kind, record.name, stored) is not None:
        return None
    reason = f"damaged; {record.consequence}"
    return RecordChange(record.name, record.replacement, stored.object_generation, reason)
