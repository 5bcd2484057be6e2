"""Ends a test's call before one of its writes to Cloud Storage or BigQuery, or lets it sleep there for long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from google.cloud.bigquery import Client
from google.cloud.bigquery.job.base import _AsyncJob

from dedup_clone.state.store import ObjectStore

# The methods that change a bucket or a table, or start a job. Jobs that only read count too, which does no harm.
_WRITES: tuple[tuple[type[Any], str], ...] = (
    *((ObjectStore, name) for name in ("_upload", "copy_from", "delete", "delete_prefix")),
    *((Client, name) for name in ("create_table", "delete_table", "update_table")),
    (_AsyncJob, "_begin"),
)
_READS: tuple[tuple[type[Any], str], ...] = tuple((ObjectStore, name) for name in ("read", "objects", "folders"))


class Killed(BaseException):
    """Stands for the end of the process. It is no Exception, so that no code that handles errors catches it."""


@contextmanager
def killed_before_write(number: int) -> Iterator[None]:
    """In the block, raise `Killed` instead of the write with this number (from 1), and of all later writes."""

    def kill(write: int) -> None:
        if write >= number:
            raise Killed

    with _before_writes(kill):
        yield


@contextmanager
def asleep_before_write(number: int, meanwhile: Callable[[], Any]) -> Iterator[list[Any]]:
    """In the block, call `meanwhile` before the write with this number (from 1), which then goes on.

    Yields a list that gets the result of `meanwhile`, and stays empty if there are fewer writes.
    """
    woken: list[Any] = []
    with _before_writes(lambda write: woken.append(meanwhile()) if write == number else None):
        yield woken


@contextmanager
def asleep_before_read(number: int, meanwhile: Callable[[], Any]) -> Iterator[list[Any]]:
    """As `asleep_before_write`, before the read or listing of state with this number."""
    woken: list[Any] = []
    with _before_writes(lambda read: woken.append(meanwhile()) if read == number else None, _READS):
        yield woken


@contextmanager
def _before_writes(call: Callable[[int], Any], writes: tuple[tuple[type[Any], str], ...] = _WRITES) -> Iterator[None]:
    """In the block, call `call` with the number of each write (from 1) before the write."""
    numbers = count(1)

    def counted(write: Any) -> Any:
        def counted_write(*arguments: Any, **keyword_arguments: Any) -> Any:
            if not _spared:
                call(next(numbers))
            return write(*arguments, **keyword_arguments)

        return counted_write

    with ExitStack() as patches:
        for owner, name in writes:
            patches.enter_context(patch.object(owner, name, counted(vars(owner)[name])))
        yield


_spared: list[bool] = []


@contextmanager
def spared() -> Iterator[None]:
    """In the block, writes are neither counted nor killed: another process makes them."""
    _spared.append(True)
    try:
        yield
    finally:
        _spared.pop()


def kill_before_write(number: int, work: Callable[[], Any]) -> bool:
    """Call `work`, and end it before its write with this number. Returns False if it makes fewer writes."""
    try:
        with killed_before_write(number):
            work()
    except Killed:
        return True
    return False
