"""Keeps a failure from ending the run: what only reports on a publish must not hold up or fail its commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from dedup_clone.publish.services import Services

T = TypeVar("T")


@contextmanager
def best_effort(services: Services, consequence: str) -> Iterator[None]:
    """Log a failure of the block as a warning that begins with `consequence`, and never raise it."""
    try:
        yield
    except Exception as error:
        services.log(f"{consequence}: {type(error).__name__}: {error}", level=logging.WARNING)


def try_read(services: Services, consequence: str, read: Callable[[], T]) -> T | None:
    """The result of `read`. A failure is logged as in `best_effort`, and the result is None."""
    with best_effort(services, consequence):
        return read()
    return None
