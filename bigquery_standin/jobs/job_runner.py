"""Runs each job in its own thread, a few at a time. Each change of a job's state is stored before clients see it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bigquery_standin.bigquery_errors import StandInError, StoppedJob
from bigquery_standin.clock import MICROSECONDS, Clock
from bigquery_standin.faults import Fault, FaultRegistry
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.jobs.job_store import DONE, RUNNING, JobRecord, JobStore, error_proto

PARALLEL_JOBS = 6
TIMED_OUT = "Job timed out"
LOG = logging.getLogger(__name__)


@dataclass
class JobContext:
    """What a job function is given for its job.

    `record`: the function may replace it, to change what is stored of the job. `upload`: the file that was sent with a
    load job, or None. Nobody needs it after a kill: then the job fails. `deadline_us`: when the job must have ended;
    infinity without a limit. `stop`, `on_cancel`: to stop the job, another thread sets `stop`, then calls `on_cancel`.
    `statistics`: those that the job reports if it fails.
    """

    record: JobRecord
    store: JobStore
    clock: Clock
    upload: bytes | None = None
    deadline_us: float = math.inf
    stop: threading.Event = field(default_factory=threading.Event)
    on_cancel: Callable[[], None] = lambda: None
    statistics: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def session(self) -> Iterator[DuckDbSession]:
        """Yield a connection to DuckDB, whose queries end when the job is stopped."""
        with closing(DuckDbSession(self.stop)) as session:
            self.on_cancel = session.interrupt
            try:
                yield session
            finally:
                self.on_cancel = lambda: None

    def check_cancelled(self) -> None:
        """Raises StoppedJob if the job was cancelled or took too long."""
        if self.clock.now_us() >= self.deadline_us:
            raise StoppedJob(TIMED_OUT)
        if self.stop.is_set():
            raise StoppedJob()


Admission = Callable[[JobContext], AbstractContextManager[None]]  # entered while the job is PENDING, left at its end
JobFunction = Callable[[JobContext], Mapping[str, Any]]  # returns the job's statistics


class JobRunner:
    """Runs the jobs of the stand-in. `functions`: by kind of job, such as `load`."""

    def __init__(
        self,
        store: JobStore,
        clock: Clock,
        faults: FaultRegistry,
        functions: Mapping[str, JobFunction],
        admission: Admission,
    ) -> None:
        self.store = store
        self.clock = clock
        self._faults = faults
        self._functions = functions
        self._admission = admission
        self._slots = threading.Semaphore(PARALLEL_JOBS)
        self._contexts: dict[str, JobContext] = {}

    def insert(self, record: JobRecord, upload: bytes | None = None) -> JobRecord:
        """Store the job and return its record. The job then runs in the background.

        If an earlier jobs.query had the record's requestId, start no job and return the record of the earlier one.
        Raises as `JobStore.add` does.
        """
        stored = self.store.add(record)
        if stored is not record:
            return stored
        context = JobContext(record, self.store, self.clock, upload, deadline_us(record))
        self._contexts[record.key] = context
        threading.Thread(target=self._run, args=(context,), name=f"job {record.key}", daemon=True).start()
        return record

    def cancel(self, record: JobRecord) -> JobRecord:
        """Ask the job to stop. As in BigQuery, a job that commits before it notices the request succeeds."""
        context = self._contexts.get(record.key)
        if context is not None:
            self._stop(context)
        return self.store.by_key(record.key)

    def _stop(self, context: JobContext) -> None:
        context.stop.set()
        context.on_cancel()

    def _run(self, context: JobContext) -> None:
        timer = None
        if context.deadline_us < math.inf:
            seconds = (context.deadline_us - self.clock.now_us()) / MICROSECONDS
            timer = threading.Timer(max(seconds, 0), self._stop, (context,))
            timer.start()
        try:
            statistics = self._call_function(context)
            ended = replace(context.record, statistics=statistics)
        except Exception as error:
            ended = replace(context.record, error=self._error(context, error), statistics=context.statistics)
        now_us = self.clock.now_us()
        self.store.save(replace(ended, state=DONE, started_us=ended.started_us or now_us, ended_us=now_us))
        del self._contexts[ended.key]
        if timer is not None:
            timer.cancel()

    def _call_function(self, context: JobContext) -> Mapping[str, Any]:
        """Runs the job function when the job may start. Returns the job's statistics."""
        record = context.record
        fault = self._faults.match(job_type=record.kind, job_id=record.job_id)
        if fault is not None and fault.effect == "queue":
            self._faults.wait_in_queue(fault, context.stop)
        with self._admission(context), self._slots:
            context.record = self.store.save(replace(record, state=RUNNING, started_us=self.clock.now_us()))
            context.check_cancelled()
            if fault is not None:
                _inject(fault)
            return self._functions[record.kind](context)

    def _error(self, context: JobContext, error: Exception) -> dict[str, Any]:
        """The job's error as it is stored. If the job was stopped at its deadline, the error says so."""
        if isinstance(error, StoppedJob) and self.clock.now_us() >= context.deadline_us:
            return error_proto(StoppedJob(TIMED_OUT))
        if isinstance(error, StandInError):
            return error_proto(error)
        LOG.error("Job [%s] failed inside the stand-in.", context.record.key, exc_info=error)
        return error_proto(failed_inside(context.record.key, error))


def failed_inside(job_key: str, error: Exception) -> StandInError:
    """The error of a job that failed by a defect of the stand-in."""
    return StandInError(f"Job {job_key} failed inside the stand-in: {error!r}. See its log.", "standInFailed")


def deadline_us(record: JobRecord) -> float:
    """When the job must have ended: `jobTimeoutMs` after its creation, or infinity without such a limit.

    Source: REST reference of jobs, JobConfiguration.jobTimeoutMs.
    """
    timeout_ms = int(record.configuration.get("jobTimeoutMs") or 0)
    return record.created_us + timeout_ms * 1000 if timeout_ms > 0 else math.inf


def _inject(fault: Fault) -> None:
    if fault.effect == "error":
        raise StandInError(fault.message, fault.reason)
    if fault.effect == "delay" and fault.seconds is not None:
        time.sleep(fault.seconds)
