"""Kills the caller before one of its writes: to the state and landing buckets, or to BigQuery."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from google.cloud.bigquery import Client
from google.cloud.bigquery.job import LoadJob, QueryJob
from google.cloud.bigquery.job.base import _AsyncJob

from dedup_clone.state.store import ObjectStore

# What changes a bucket or a table, or starts a job. Reading queries count too, which does no harm.
_WRITES: tuple[tuple[type[Any], str], ...] = (
    *((ObjectStore, name) for name in ("_upload", "copy_from", "delete", "delete_folder")),
    *((Client, name) for name in ("create_table", "delete_table", "update_table")),
    *((kind, "_begin") for kind in (_AsyncJob, LoadJob, QueryJob)),
)


class Killed(BaseException):
    """The process ended here. No code that handles errors sees it."""


@contextmanager
def killed_before_write(number: int) -> Iterator[None]:
    """Raise `Killed` instead of the caller's write with this number (from 1), and instead of all later ones."""
    numbers = count(1)

    def counted(write: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if next(numbers) >= number:
                raise Killed
            return write(*arguments, **named)

        return call

    with ExitStack() as patches:
        for owner, name in _WRITES:
            if name in vars(owner):
                patches.enter_context(patch.object(owner, name, counted(vars(owner)[name])))
        yield


def is_killed(number: int, work: Any) -> bool:
    """Call `work`, which is killed before its write with this number; return whether it has so many."""
    try:
        with killed_before_write(number):
            work()
    except Killed:
        return True
    return False
