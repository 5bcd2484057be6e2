"""Task of a bootstrap after the approval: acquires the lease and records which table becomes the first generation.

The next tasks export the table's rows to state, free of charge. The Spark job validates the rows and writes them anew.
Then the rows are loaded into staging, compared with the table, and swapped in. Until the swap the table stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.contract.kind import Kind
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.bootstrap.existing_table import (
    BootstrapRecord,
    ExistingTable,
    describe_partitions,
    read_existing_table,
    save_bootstrap_record,
)
from dedup_clone.publish.planning.staging_table import prepare_staging
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.services import Services
from dedup_clone.publish.step_specs import PublishSpec

# The snapshot id in the spec of a bootstrap, whose rows nobody has read yet.
SNAPSHOT_UNKNOWN = 0


@dataclass(frozen=True)
class BootstrapRequest:
    """The form of a bootstrap run.

    `source_table`: see `read_existing_table`. `duplicates`: what is done about duplicate keys. `drop_expired`: whether
    the operator accepts that rows older than the retention are left out. `compared_dates`: the number of dates that are
    compared in all columns, by one query each.
    """

    dag_id: str
    run_id: str
    source_table: str
    duplicates: Duplicates
    drop_expired: bool
    compared_dates: int
    reason: str


def resolve_bootstrap(services: Services, bootstrap_request: BootstrapRequest, version_shown: str) -> PublishSpec:
    """Recover a dead run, read the table again, acquire the lease, record which table is taken over. Returns the spec.

    `version_shown` is the table's version in the preview. Raises LeaseHeld, LostRace, BootstrapRefused when the table
    cannot be bootstrapped or was changed since the preview, and for what `refuse_unaccepted` names; ConfigurationError
    for a malformed name of the table; and what `CurrentFile.read_for` and `recover` raise.
    """
    dag_id, run_id = bootstrap_request.dag_id, bootstrap_request.run_id
    services.current.read_for(services.environment)
    recover(services, dag_id=dag_id, run_id=run_id)
    existing = read_existing_table(services, bootstrap_request.source_table)
    if existing.version != version_shown:
        raise BootstrapRefused(
            f"Table [{existing.name}] was changed since it was shown, and not by the bootstrap. Stop whatever writes "
            f"it, then trigger the bootstrap again."
        )
    refuse_unaccepted(existing, bootstrap_request)
    intent = services.current.acquire_lease(
        services.environment, None, Kind.BOOTSTRAP, dag_id=dag_id, run_id=run_id, now=services.now()
    )
    prepare_staging(services)
    record = BootstrapRecord(existing, bootstrap_request.duplicates, bootstrap_request.compared_dates)
    save_bootstrap_record(services, intent.attempt, record)
    services.log(
        f"acquired the lease for attempt [{intent.attempt}]: takes over [{existing.name}], {existing.rows} rows in "
        f"{len(existing.partitions)} dates",
        generation=intent.generation,
    )
    return PublishSpec(
        feed=services.feed.feed,
        generation=intent.generation,
        attempt=intent.attempt,
        parent=None,
        engine=Engine.SPARK,
        snapshot_id=SNAPSHOT_UNKNOWN,
        request_uri=services.store.uri(services.layout.request(intent.attempt)),
        reason=_ledger_reason(existing, bootstrap_request),
    )


def refuse_unaccepted(existing: ExistingTable, bootstrap_request: BootstrapRequest, *other_problems: str) -> None:
    """Raise BootstrapRefused for what the operator has to accept in the form, and for the other problems."""
    problems = list(other_problems)
    if existing.expired and not bootstrap_request.drop_expired:
        problems.append(
            f"Table [{existing.name}] has [{existing.expired_rows}] rows in [{len(existing.expired)}] dates before "
            f"[{existing.oldest}], which the feed's retention does not keep ({describe_partitions(existing.expired)}): "
            f"they would not be in target. Accept that with [drop_expired], or raise retention_days in the feed's file."
        )
    if problems:
        raise BootstrapRefused("The bootstrap cannot run with this form; nothing was changed:\n" + "\n".join(problems))


def _ledger_reason(existing: ExistingTable, bootstrap_request: BootstrapRequest) -> str:
    left_out = f", without [{existing.expired_rows}] rows before [{existing.oldest}]" if existing.expired else ""
    given = f": {bootstrap_request.reason}" if bootstrap_request.reason else ""
    return f"takes over [{existing.name}]{left_out}, duplicates [{bootstrap_request.duplicates}]{given}"
