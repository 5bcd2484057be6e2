"""Keeps a failure from ending the run: what is written after a commit must not fail the publish."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from dedup_clone.publish.services import Services


@contextmanager
def best_effort(services: Services, consequence: str) -> Iterator[None]:
    """Log a failure of the block as a warning that begins with `consequence`, and never raise it."""
    try:
        yield
    except Exception as error:
        services.log(f"{consequence}: {type(error).__name__}: {error}", level=logging.WARNING)
