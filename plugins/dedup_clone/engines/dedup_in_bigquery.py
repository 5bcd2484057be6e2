"""The dedup task of the SQL engines, without Airflow: makes the candidate of a dedup attempt.

The candidate says what the load task will write to staging; the dedup task itself writes nothing there. The candidate
is written last, and only if the attempt has none yet, like that of the Spark job. Every BigQuery job of the task
succeeds at most once per attempt.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import ContractViolation, DeliveryRefused
from dedup_clone.contract.manifest import Candidate, DeliveryMetrics, RefusedDelivery
from dedup_clone.contract.table import nullable
from dedup_clone.engines.delivery_examination import ExaminedDelivery, examine, refused_if_unreadable, require_unchanged
from dedup_clone.engines.sql_manifest import CountedDates, build_manifest, count_dates
from dedup_clone.publish.attempt_jobs import find_step_job, load_configuration, query_configuration, run_step_job
from dedup_clone.publish.parent_generation import parent_in_target
from dedup_clone.publish.services import Services


def dedup_in_bigquery(services: Services, attempt_id: str) -> None:
    """Write the attempt's candidate, unless it exists.

    Raises DeliveryRefused when landed files changed while BigQuery read them, or after an earlier try appended their
    rows; ContractViolation when target was changed or has row access policies, or a record such as the attempt is gone;
    CheckFailed when a query would read more than the feed's `max_bytes_billed`; LostRace when the attempt has lost the
    lease; JobFailed; OutcomeUnknown after too many failed jobs of one step.
    """
    services.current.require_intent(attempt_id)
    if services.manifests.candidate(attempt_id) is not None:
        return
    attempt = services.manifests.attempt(attempt_id)
    _require_no_row_policies(services, attempt)
    services.manifests.write_candidate(attempt.id, _make_candidate(services, attempt))


def _require_no_row_policies(services: Services, attempt: Attempt) -> None:
    """Raise ContractViolation if target has row access policies: a query might miss rows that the policies hide."""
    target = services.feed.target
    policies = services.warehouse.policies(target).row_access if attempt.parent else ()
    if policies:
        raise ContractViolation(
            f"Target [{target}] has row access policies [{', '.join(policies)}], so engine [{attempt.engine}] may not "
            f"see all rows of target: replay with engine [spark], and declare the policies in the feed's file."
        )


def _make_candidate(services: Services, attempt: Attempt) -> Candidate:
    seconds: dict[str, float] = {}  # the duration of each phase
    with _timed(seconds, "append"):
        applied, refused = _load_deliveries(services, attempt)
    if not applied:
        return Candidate(refused=refused, seconds=seconds)
    with _timed(seconds, "evidence"):
        first_days = [item.first_day for item in applied if item.first_day]
        last_days = [item.last_day for item in applied if item.last_day]
        # Without a day every row of every delivery is older than the retention.
        days = (min(first_days), max(last_days)) if first_days and last_days else None
        counted = count_dates(services, attempt, *days) if days else CountedDates(())
    with _timed(seconds, "verify"):
        require_unchanged(services, attempt, applied)
    surplus = counted.surplus_rows()
    parent = None if attempt.parent is None else services.manifests.read(attempt.parent)
    return Candidate(
        manifest=build_manifest(
            attempt,
            counted,
            parent and parent_in_target(services, attempt, parent),
            tuple(item.delivery for item in applied),
            delivered_rows_dropped=sum(item.dropped_rows for item in applied),
            now=services.now(),
        ),
        deliveries=tuple(
            DeliveryMetrics(item.delivery, item.rows, item.dropped_rows, surplus[item.delivery.snapshot_id])
            for item in applied
        ),
        refused=refused,
        examples=counted.key_examples(),
        seconds=seconds,
    )


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    seconds[phase] = round(time.monotonic() - start, 3)


def _load_deliveries(
    services: Services, attempt: Attempt
) -> tuple[list[ExaminedDelivery], tuple[RefusedDelivery, ...]]:
    """Append each valid delivery to the attempt's incoming table, by a free load job of its own.

    Returns the loaded and the refused deliveries. All rows of one snapshot id come from one delivery, because
    superseded deliveries are not applied. So the snapshot id of a row identifies the row's delivery. Safe to repeat.
    Raises what `examine` raises, but DeliveryRefused only if the table may have rows of the refused delivery already.
    """
    loaded: list[ExaminedDelivery] = []
    refused: list[RefusedDelivery] = []
    for number, delivery in enumerate(attempt.deliveries, start=1):
        try:
            examined = examine(services, attempt, number, services.arrivals.read(delivery))
            if not loaded:
                _create_incoming(services, attempt)
            _append(services, attempt, number, examined)
            loaded.append(examined)
        except DeliveryRefused as error:
            if _may_be_appended(services, attempt, number):
                names = services.names.of_attempt(attempt.id)
                raise DeliveryRefused(
                    f"{error} An earlier try of this task found nothing wrong and appended its rows to "
                    f"[{names.dataset}.{names.incoming_table}], so attempt [{attempt.id}] cannot leave them out. It "
                    f"ends here: target is unchanged, and the refusal is not recorded yet. Clear the run from its "
                    f"first task, or wait until it is repeated: the next attempt makes its own table, without it."
                ) from error
            refused.append(RefusedDelivery(delivery, str(error)))
            services.log(f"refused: {error}", snapshot_id=delivery.snapshot_id)
    return loaded, tuple(refused)


def _create_incoming(services: Services, attempt: Attempt) -> None:
    names, options = services.names.of_attempt(attempt.id), services.feed.table.options
    sql = services.warehouse.render("ddl/create_incoming.sql", names=names, table=attempt.table, options=options)
    run_step_job(services, attempt.id, "incoming", lambda: query_configuration(services, "incoming", sql, {}))


def _may_be_appended(services: Services, attempt: Attempt, number: int) -> bool:
    """Whether an earlier try of the task has appended the delivery's rows, or has recorded a job that may yet do so."""
    job = find_step_job(services, attempt.id, f"append_{number}")
    return job.metadata is not None or job.job_id in services.current.require_intent(attempt.id).jobs


def _append(services: Services, attempt: Attempt, number: int, examined: ExaminedDelivery) -> None:
    """Append the delivery's rows. Raises DeliveryRefused, without any of them, if BigQuery cannot decode a file."""
    columns = map(nullable, attempt.table.columns)
    configuration = load_configuration(
        services,
        "append",
        list(examined.uris),
        services.names.of_attempt(attempt.id).incoming_table,
        columns,
        writeDisposition="WRITE_APPEND",
    )
    with refused_if_unreadable(attempt, examined.arrival, "load"):
        run_step_job(services, attempt.id, f"append_{number}", lambda: configuration)
