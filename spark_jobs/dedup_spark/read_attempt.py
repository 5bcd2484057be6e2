"""Reads the attempt, and refuses one that the job cannot carry out."""

from __future__ import annotations

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json
from dedup_spark import storage
from dedup_spark.column_types import require_supported


def read_attempt(uri: str) -> Attempt:
    """Return the attempt stored at `uri`.

    Raises FileNotFoundError if there is none, ContractViolation if it is malformed, and ConfigurationError if the job
    does not support the table's columns or keys.
    """
    attempt = from_json(Attempt, storage.read_text(uri), where=uri)
    deliveries = list(attempt.deliveries)
    has_unique_ids = len({d.snapshot_id for d in deliveries}) == len(deliveries)
    is_ascending = deliveries == sorted(deliveries) and has_unique_ids
    if bool(deliveries) == bool(attempt.erases) or not is_ascending:
        raise ContractViolation(
            f"Attempt [{uri}] names deliveries [{', '.join(d.name for d in deliveries)}], expected at least one, or "
            f"none for an erasure, ascending, and one for each snapshot id: clear the run from its first task."
        )
    require_supported(attempt.table)
    return attempt
