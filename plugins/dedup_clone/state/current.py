"""CURRENT: what is live, the lease of the run that works on the next generation, and what the table staging holds.

A run holds the lease while its `Intent`, the record of who holds it and for what, is in CURRENT.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import (
    ConfigurationError,
    ContractViolation,
    FeedHeldElsewhere,
    LeaseHeld,
    LeaseLost,
    LostRace,
)
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout, generation_of
from dedup_clone.state.store import ObjectStore


@dataclass(frozen=True)
class Intent:
    """The run that holds the lease. It works on `generation`, which builds on `parent`.

    `parent` is None before the first publish. `jobs` are the ids of the run's BigQuery jobs. `taken_at` is when the
    lease was acquired. `is_ending`: a recovery decides whether the attempt is committed, so it may start no more jobs.
    """

    kind: Kind
    dag_id: str
    run_id: str
    attempt: str
    parent: int | None
    generation: int
    taken_at: datetime
    jobs: tuple[str, ...]
    is_ending: bool = False

    def is_of(self, *, dag_id: str, run_id: str) -> bool:
        """Whether this run made the intent."""
        return (self.dag_id, self.run_id) == (dag_id, run_id)


@dataclass(frozen=True)
class Staging:
    """What the table staging holds.

    `attempt`: the one that changed it last. `holds`: the digest of the manifest whose rows it holds exactly; None if
    nobody knows what it holds, because the attempt has not finished its load, or somebody else changed the table.
    `writer`: the try of the load task that streams changes into it, which BigQuery may still be applying; empty if none
    does. Another try has another name.
    """

    attempt: str
    holds: str | None = None
    writer: str = ""


class TargetAction(StrEnum):
    """What becomes of a retired feed's target."""

    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True)
class Retirement:
    """The record of one retirement. `generation`: the last live generation; None if nothing was published."""

    retired_at: datetime
    run_id: str
    reason: str
    target: TargetAction
    attempt: str
    generation: int | None


@dataclass(frozen=True)
class Current:
    """The content of CURRENT. `generation` and `manifest_digest`: the live generation; None without one.

    `last_generation` is the highest number given to an attempt so far; numbers are never reused. `environment` names
    the Airflow environment that publishes the feed: the one that acquired the first lease, or to which the feed was
    moved. It is empty before the first lease. Two environments must not publish one feed: neither can ask the other's
    Airflow whether a run is alive, and both give their runs the same ids. While `retired` is there, no DAG changes or
    checks the feed. `staging` is None before the first load.
    """

    feed: str
    generation: int | None
    manifest_digest: str | None
    last_generation: int
    intent: Intent | None
    environment: str = ""
    retired: Retirement | None = None
    staging: Staging | None = None

    def refusal(self, environment: str) -> str:
        """Why the feed is not for `environment`: another one publishes it. Empty if there is no reason."""
        if self.environment in ("", environment):
            return ""
        return (
            f"Feed [{self.feed}] is published by Airflow environment [{self.environment}], and this one is "
            f"[{environment}]: nothing was changed. To publish the feed from here, pause its DAGs there, then run "
            f"`python -m deploy move-feed {self.feed} --from {self.environment} --to {environment}`."
        )

    def require_in_use(self) -> None:
        """Raise ConfigurationError if the feed is retired."""
        if self.retired is not None:
            raise ConfigurationError(
                f"Feed [{self.feed}] was retired at {self.retired.retired_at:%Y-%m-%d %H:%M} UTC by run "
                f"[{self.retired.run_id}]: nothing was done. To use it again from its beginning, delete the object "
                f"[{FeedLayout(self.feed).current}] of the state bucket."
            )

    def require_own(self, environment: str) -> None:
        """Raise FeedHeldElsewhere if another environment publishes the feed, ConfigurationError if it is retired."""
        if refusal := self.refusal(environment):
            raise FeedHeldElsewhere(refusal)
        self.require_in_use()


def restore_records(feed: str) -> str:
    """The next step when CURRENT is lost."""
    return f"Run `python -m deploy recover {feed} --apply` (docs/runbook.md, lost records)."


def lease_held_error(feed: str, intent: Intent) -> LeaseHeld:
    """The error for a run that requests the lease while `intent` holds it."""
    return LeaseHeld(
        f"[{feed}] is being worked on by run [{intent.run_id}] of [{intent.dag_id}] "
        f"({intent.kind}, generation {intent.generation}, since {intent.taken_at:%Y-%m-%d %H:%M:%S} UTC): "
        f"wait until it has ended (if it hangs, mark it as failed); this task tries again by itself."
    )


class CurrentFile:
    """Reads and changes CURRENT of one feed.

    Methods that change CURRENT raise LostRace if another process writes the object between their read and their write.
    Those with an `attempt` raise LeaseLost if that attempt does not hold the lease, except `release`, which then
    changes nothing.
    """

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._feed = feed
        self._name = FeedLayout(feed).current

    def read(self) -> Current:
        """The content of CURRENT; without generation and lease if the object is absent."""
        return self._read()[0]

    def read_for(self, environment: str) -> Current:
        """The content of CURRENT, for a run of `environment`.

        Raises FeedHeldElsewhere if another environment publishes the feed, ConfigurationError if it is retired,
        ContractViolation if CURRENT was deleted.
        """
        current = self.read()
        current.require_own(environment)
        if self.is_lost(current):
            raise ContractViolation(
                f"[{self._store.uri(self._name)}] is gone, so nobody knows what is published: records of feed "
                f"[{self._feed}] are lost. {restore_records(self._feed)}"
            )
        return current

    def _read(self) -> tuple[Current, int]:
        stored = self._store.read(self._name)
        if stored is None:
            return Current(self._feed, None, None, 0, None), 0
        current = from_json(Current, stored.text, where=self._store.uri(self._name))
        return current, stored.object_generation

    def change(self, change: Callable[[Current], Current]) -> Current:
        """Replace the content of CURRENT by the result of `change`, unless both are equal. Return the result."""
        current, object_generation = self._read()
        changed = change(current)
        if changed != current:
            self._store.replace(self._name, to_json(changed), expected_object_generation=object_generation)
        return changed

    def acquire_lease(
        self, environment: str, parent: int | None, kind: Kind, *, dag_id: str, run_id: str, now: datetime
    ) -> Intent:
        """Acquire the lease for a run of `environment` that builds the next generation on `parent`; return its intent.

        `parent` is the generation that was live when the run decided what to do. The attempt's name is unique, even
        among attempts at the same generation. Raises LeaseHeld, LostRace if another generation than `parent` is live
        by now, FeedHeldElsewhere if another environment publishes the feed, and ConfigurationError if it is retired.
        """
        current, object_generation = self._read()
        current.require_own(environment)
        if current.intent is not None:
            raise lease_held_error(self._feed, current.intent)
        if current.generation != parent:
            raise LostRace(
                f"Generation [{current.generation}] was committed meanwhile: this task tries again by itself."
            )
        generation = (current.last_generation or self.highest_generation()) + 1
        attempt = f"{generation:08d}-{secrets.token_hex(3)}"
        intent = Intent(kind, dag_id, run_id, attempt, parent, generation, now, ())
        acquired = dataclasses.replace(current, last_generation=generation, intent=intent, environment=environment)
        self._store.replace(self._name, to_json(acquired), expected_object_generation=object_generation)
        return intent

    def highest_generation(self) -> int:
        """The highest generation that a record or data folder names, so that none is given twice; 0 without one."""
        layout = FeedLayout(self._feed)
        names = [*self._store.folders(layout.attempts), *self._store.folders(layout.data)]
        for prefix in (layout.manifests, layout.ledger):
            names += [info.name for info in self._store.objects(prefix)]
        return max((number for number in map(generation_of, names) if number is not None), default=0)

    def is_lost(self, current: Current) -> bool:
        """Whether `current`, as it was read, is not what the feed's last run wrote, because the object was deleted.

        A retired feed has no manifest any more: if it is used again, it begins without CURRENT.
        """
        if current.last_generation or current.generation is not None:
            return False
        return any(generation_of(info.name) for info in self._store.objects(FeedLayout(self._feed).manifests))

    def require_intent(self, attempt: str) -> Intent:
        """The intent of `attempt`. Raises LeaseLost if the attempt does not hold the lease."""
        return self._require(self.read(), attempt)

    def record_jobs(self, attempt: str, job_ids: Iterable[str], staging: Staging | None = None) -> None:
        """Record BigQuery jobs before they are created, so that a recovery knows which jobs may still run.

        `staging`: what it holds from now on; None: the same as before. All is recorded with one write, because Cloud
        Storage limits writes of an object to one a second.
        """
        ids = tuple(job_ids)

        def record(current: Current) -> Current:
            intent = self._require(current, attempt, starts_jobs=True)
            recorded = dataclasses.replace(intent, jobs=tuple(dict.fromkeys((*intent.jobs, *ids))))
            return dataclasses.replace(current, intent=recorded, staging=staging or current.staging)

        self.change(record)

    def record_staging(self, staging: Staging) -> None:
        """Record what staging holds now that its attempt changed it."""
        self.record_jobs(staging.attempt, (), staging)

    def forget_staging(self) -> None:
        """Record that nobody knows what staging holds, so that the next load fills all of it."""

        def forget(current: Current) -> Current:
            staging = current.staging
            if staging is None or staging.holds is None:
                return current
            return dataclasses.replace(current, staging=Staging(staging.attempt))

        self.change(forget)

    def commit(self, intent: Intent, manifest_digest: str) -> None:
        """Make the intent's generation the committed one, and release the lease. A repeated call changes nothing.

        Raises LostRace if the attempt has recorded a job since `intent` was read, which nobody has fenced.
        """

        def commit(current: Current) -> Current:
            if current.intent is None and current.manifest_digest == manifest_digest:
                return current
            if self._require(current, intent.attempt).jobs != intent.jobs:
                raise LostRace(
                    f"Attempt [{intent.attempt}] recorded another job meanwhile: this task tries again by itself."
                )
            return dataclasses.replace(
                current, generation=intent.generation, manifest_digest=manifest_digest, intent=None
            )

        self.change(commit)

    def retire(self, attempt: str, retirement: Retirement) -> None:
        """Record that the feed is retired, so that no generation is live, and release the lease of `attempt`."""

        def retire(current: Current) -> Current:
            self._require(current, attempt)
            return dataclasses.replace(current, generation=None, manifest_digest=None, intent=None, retired=retirement)

        self.change(retire)

    def release(self, attempt: str) -> None:
        """Release the lease without a commit. Changes nothing when `attempt` does not hold it."""

        def release(current: Current) -> Current:
            is_held = current.intent is not None and current.intent.attempt == attempt
            return dataclasses.replace(current, intent=None) if is_held else current

        self.change(release)

    def _require(self, current: Current, attempt: str, *, starts_jobs: bool = False) -> Intent:
        """The intent of `attempt`. Raises LeaseLost if the attempt does not hold the lease in `current`."""
        intent = current.intent
        if intent is None or intent.attempt != attempt or (starts_jobs and intent.is_ending):
            holder = "nobody" if intent is None else "a recovery" if intent.is_ending else f"attempt [{intent.attempt}]"
            raise LeaseLost(
                f"The lease of [{self._feed}] is held by {holder}, expected attempt [{attempt}]: this attempt has "
                f"ended. Clear the run from its first task: it then builds on the live generation."
            )
        return intent
