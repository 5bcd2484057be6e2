"""Runs jobs: one thread each, a few at a time, cancellable until the commit, every step in the durable record."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from devstack.bigquery.clock import Clock
from devstack.bigquery.errors import QuotaExceeded, StandInError, StoppedJob
from devstack.bigquery.faults import Fault, FaultBoard
from devstack.bigquery.jobs.record import DONE, RUNNING, JobRecord, error_proto
from devstack.bigquery.jobs.store import JobStore
from devstack.bigquery.storage.refusals import StandInFailed

JOBS_AT_A_TIME = 6
LOG = logging.getLogger(__name__)


@dataclass
class JobContext:
    """What a running job is given. `on_cancel` is called from another thread."""

    record: JobRecord
    store: JobStore
    clock: Clock
    stop: threading.Event = field(default_factory=threading.Event)
    on_cancel: Callable[[], None] = lambda: None
    statistics: dict[str, Any] = field(default_factory=dict)  # what a job that fails still reports

    def check_cancelled(self) -> None:
        if self.stop.is_set():
            raise StoppedJob("Job execution was cancelled: User requested cancellation")


Admission = Callable[[JobContext], AbstractContextManager[None]]  # entered while PENDING, left when the job has ended
Work = Callable[[JobContext], Mapping[str, Any]]  # returns the job's statistics


class InjectedError(StandInError):
    """A job's error that a fault asked for."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.reason = fault.reason  # type: ignore[misc]  # per fault, not per class


class JobRunner:
    def __init__(
        self,
        store: JobStore,
        clock: Clock,
        faults: FaultBoard,
        works: Mapping[str, Work],
        admissions: Mapping[str, Admission] | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self._faults = faults
        self._works = works
        self._admissions = admissions or {}
        self._slots = threading.Semaphore(JOBS_AT_A_TIME)
        self._contexts: dict[str, JobContext] = {}

    def insert(self, record: JobRecord) -> JobRecord:
        """Returns once the record is durable; the job then runs by itself."""
        self.store.add(record)
        context = JobContext(record, self.store, self.clock)
        self._contexts[record.key] = context
        threading.Thread(target=self._run, args=(context,), name=f"job {record.key}", daemon=True).start()
        return record

    def cancel(self, record: JobRecord) -> JobRecord:
        """A request, as in BigQuery: a job that commits first ends well."""
        context = self._contexts.get(record.key)
        if context is not None:
            context.stop.set()
            self._faults.wake()
            context.on_cancel()
        return self.store.by_key(record.key)

    def wait(self, record: JobRecord, timeout_s: float) -> JobRecord:
        return self.store.wait(record.key, lambda found: found.state == DONE, timeout_s)

    def _run(self, context: JobContext) -> None:
        record = context.record
        fault = self._faults.take_job(record.kind, record.job_id)
        if fault is not None and fault.effect == "queue":
            self._faults.hold(fault, context.stop)
        try:
            with self._admission(context), self._slots:
                context.record = self.store.save(replace(record, state=RUNNING, started_us=self.clock.now_us()))
                ended = self._outcome(context, fault)
        except StandInError as error:  # it was never admitted
            ended = replace(record, error=error_proto(error), started_us=self.clock.now_us())
        self.store.save(replace(ended, state=DONE, ended_us=self.clock.now_us()))
        del self._contexts[record.key]

    def _admission(self, context: JobContext) -> AbstractContextManager[None]:
        admission = self._admissions.get(context.record.kind)
        return admission(context) if admission is not None else nullcontext()

    def _outcome(self, context: JobContext, fault: Fault | None) -> JobRecord:
        try:
            context.check_cancelled()
            if fault is not None:
                _apply(fault)
            statistics = self._works[context.record.kind](context)
            return replace(context.record, statistics=statistics)
        except StandInError as error:
            return replace(context.record, error=error_proto(error), statistics=context.statistics)
        except Exception as error:
            LOG.exception("Job [%s] failed inside the stand-in.", context.record.key)
            failure = StandInFailed(f"Job {context.record.key} failed inside the stand-in: {error!r}. See its log.")
            return replace(context.record, error=error_proto(failure))


def _apply(fault: Fault) -> None:
    if fault.effect == "quota":
        raise QuotaExceeded(f"Quota exceeded: {fault.message}")
    if fault.effect == "error":
        raise InjectedError(fault)
    if fault.effect == "delay" and fault.seconds is not None:
        time.sleep(fault.seconds)
