"""CURRENT: which generation is committed, and who is working on the next one (the lease)."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dedup_clone.contract.errors import LeaseHeld, LostRace
from dedup_clone.contract.manifest import FORMAT_VERSION
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


class IntentKind(StrEnum):
    PUBLISH = "publish"
    ROLLBACK = "rollback"
    BOOTSTRAP = "bootstrap"


@dataclass(frozen=True)
class Intent:
    """The lease: the run that works on `generation`, which builds on `parent`. `jobs` are its BigQuery job ids.

    While it `waits_for_approval` it gives way to whoever wants the lease.
    """

    kind: IntentKind
    dag_id: str
    run_id: str
    attempt: str
    parent: int | None
    generation: int
    taken_at: datetime
    jobs: tuple[str, ...]
    waits_for_approval: bool = False

    @classmethod
    def begin(
        cls, kind: IntentKind, *, dag_id: str, run_id: str, parent: int | None, generation: int, now: datetime
    ) -> Intent:
        """A new attempt: no other has its name, even if it works on the same generation number."""
        attempt = f"{generation:08d}-{secrets.token_hex(3)}"
        return cls(kind, dag_id, run_id, attempt, parent, generation, now, ())


@dataclass(frozen=True)
class Current:
    """`generation` and `manifest_digest` are None before the first publish; `last_generation` is never reused."""

    format_version: int
    feed: str
    generation: int | None
    manifest_digest: str | None
    last_generation: int
    intent: Intent | None


def lease_held(feed: str, intent: Intent) -> LeaseHeld:
    """The error for whoever wants the lease while `intent` has it."""
    return LeaseHeld(
        f"[{feed}] is being worked on by run [{intent.run_id}] of [{intent.dag_id}] "
        f"({intent.kind}, generation {intent.generation}, since {intent.taken_at:%Y-%m-%d %H:%M:%S} UTC): "
        f"wait until it has ended; this task tries again by itself."
    )


class CurrentFile:
    """Reads and changes CURRENT, always under the object generation that was read."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._feed = feed
        self._name = FeedLayout(feed).current

    def read(self) -> Current:
        return self._read()[0]

    def _read(self) -> tuple[Current, int]:
        stored = self._store.read(self._name)
        if stored is None:
            return Current(FORMAT_VERSION, self._feed, None, None, 0, None), 0
        return from_json(Current, stored.text, where=self._store.uri(self._name)), stored.generation

    def _change(self, change: Callable[[Current], Current]) -> Current:
        current, generation = self._read()
        changed = change(current)
        if changed != current:
            self._store.replace(self._name, to_json(changed), expected_generation=generation)
        return changed

    def take_lease(self, make_intent: Callable[[int | None, int], Intent]) -> Intent:
        """Reserve the next generation. `make_intent(parent, generation)`. Raises LeaseHeld, LostRace."""

        def take(current: Current) -> Current:
            if current.intent is not None:
                raise lease_held(self._feed, current.intent)
            generation = current.last_generation + 1
            intent = make_intent(current.generation, generation)
            return dataclasses.replace(current, last_generation=generation, intent=intent)

        intent = self._change(take).intent
        if intent is None:
            raise LostRace(f"The lease of [{self._feed}] vanished while it was taken: retry the task.")
        return intent

    def require_intent(self, attempt: str) -> Intent:
        """The intent of `attempt`, if it holds the lease. Raises LostRace."""
        return self._require(self.read(), attempt)

    def record_job(self, attempt: str, job_id: str) -> None:
        """Note a BigQuery job before it is made, so that whoever heals knows what may still be running."""
        self.record_jobs(attempt, [job_id])

    def record_jobs(self, attempt: str, job_ids: Iterable[str]) -> None:
        """Note several at once: an object may be changed once a second only. Raises LostRace."""
        wanted = tuple(job_ids)

        def record(current: Current) -> Current:
            intent = self._require(current, attempt)
            new = tuple(job_id for job_id in wanted if job_id not in intent.jobs)
            if not new:
                return current
            return dataclasses.replace(current, intent=dataclasses.replace(intent, jobs=(*intent.jobs, *new)))

        self._change(record)

    def wait_for_approval(self, attempt: str) -> None:
        """From here on the lease gives way to whoever wants it, until `end_wait`. Raises LostRace."""

        def wait(current: Current) -> Current:
            intent = self._require(current, attempt)
            return dataclasses.replace(current, intent=dataclasses.replace(intent, waits_for_approval=True))

        self._change(wait)

    def end_wait(self, attempt: str) -> None:
        """Approved: the lease is held again. Raises LostRace when it gave way meanwhile, be it an instant ago."""

        def end(current: Current) -> Current:
            intent = self._require(current, attempt)
            if not intent.waits_for_approval:
                raise LostRace(
                    f"The lease of [{self._feed}] gave way to run [{intent.run_id}] while attempt [{attempt}] waited."
                )
            return dataclasses.replace(current, intent=dataclasses.replace(intent, waits_for_approval=False))

        self._change(end)

    def take_over(self, waiting: Intent, *, dag_id: str, run_id: str) -> None:
        """Make the lease of a run that waits for approval that of another run, which then ends the attempt.

        Raises LostRace when it was approved, or taken, meanwhile.
        """

        def take(current: Current) -> Current:
            intent = self._require(current, waiting.attempt)
            if not intent.waits_for_approval:
                raise LostRace(f"Attempt [{intent.attempt}] was approved just now: this task tries again by itself.")
            mine = dataclasses.replace(intent, dag_id=dag_id, run_id=run_id, waits_for_approval=False)
            return dataclasses.replace(current, intent=mine)

        self._change(take)

    def commit(self, attempt: str, manifest_digest: str) -> None:
        """The intent's generation becomes the committed one and the lease ends. Doing it twice is harmless."""

        def commit(current: Current) -> Current:
            if current.intent is None and current.manifest_digest == manifest_digest:
                return current
            intent = self._require(current, attempt)
            return dataclasses.replace(
                current, generation=intent.generation, manifest_digest=manifest_digest, intent=None
            )

        self._change(commit)

    def release(self, attempt: str) -> None:
        """End the lease without a commit; target keeps the parent. Harmless when the lease is another's."""

        def release(current: Current) -> Current:
            if current.intent is None or current.intent.attempt != attempt:
                return current
            return dataclasses.replace(current, intent=None)

        self._change(release)

    def _require(self, current: Current, attempt: str) -> Intent:
        if current.intent is None or current.intent.attempt != attempt:
            held = "nobody" if current.intent is None else f"attempt [{current.intent.attempt}]"
            raise LostRace(
                f"The lease of [{self._feed}] is held by {held}, expected attempt [{attempt}]: this attempt has ended. "
                f"Clear the run from its first task: it then works on what is current."
            )
        return current.intent
