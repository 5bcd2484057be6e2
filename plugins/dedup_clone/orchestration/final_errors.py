"""Errors that trying again cannot mend: the task fails at once, with their message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.errors import (
    ApprovalTooLate,
    BootstrapRefused,
    CheckFailed,
    ConfigurationError,
    DeliveryRefused,
    RollbackRefused,
)

FINAL = (ApprovalTooLate, BootstrapRefused, CheckFailed, ConfigurationError, DeliveryRefused, RollbackRefused)


@contextmanager
def failing_at_once() -> Iterator[None]:
    """Turns the errors of `FINAL` into Airflow's exception that skips the retries."""
    try:
        yield
    except FINAL as error:
        raise AirflowFailException(str(error)) from error
