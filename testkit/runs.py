"""Runs the feed's DAGs in this process, without Airflow: as a whole, or step by step.

Nothing else in the tests knows which functions of the product a run consists of. The steps of one feed's publish are
methods of `FeedOnStandIn`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.cloud.bigquery import LoadJob

from dedup_clone.contract.attempt import Attempt, Duplicates
from dedup_clone.operations import bootstrap as bootstraps
from dedup_clone.operations import erase as erasures
from dedup_clone.operations import rebuild as rebuilds
from dedup_clone.operations import rollback as rollbacks
from dedup_clone.operations.takeover import drop_export, export_existing
from dedup_clone.publish.attempts import SwapSpec, save_swap
from dedup_clone.publish.check import approval_text, end_approval_wait
from dedup_clone.publish.existing_table import read_bootstrap_record, require_unchanged
from dedup_clone.publish.load import begin_load, finish_load, read_candidate, table_load_configuration
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.state.ledger import LedgerRecord
from testkit.feed_on_stand_in import ERASE_DAG, KEYS_FILE, ROLLBACK_DAG, FeedOnStandIn, job_id

BOOTSTRAP_DAG = "feed_bootstrap"
REBUILD_DAG = "feed_rebuild"
NO_LIMIT = 1 << 40  # bytes that a preview may read


class Run:
    """One run of a DAG. A run that a test leaves after some step has died there.

    `steps`: by name, in order. `text`: what the run shows to whoever approves it. `plan`: from step `resolve` on.
    """

    def __init__(self, world: FeedOnStandIn) -> None:
        self.world = world
        self.text = ""
        self.steps: dict[str, Callable[[], Any]] = {}
        self._done = 0
        self._plan: Attempt | None = None
        self._checked: SwapSpec | None = None
        self._record: LedgerRecord | None = None

    @property
    def plan(self) -> Attempt:
        assert self._plan, "the run has not taken the lease"
        return self._plan

    @property
    def attempt(self) -> str:
        return self.plan.id

    @property
    def checked(self) -> SwapSpec:
        assert self._checked, "the run has not checked anything"
        return self._checked

    def until(self, last: str) -> Run:
        """Run the steps that are left, up to and including this one."""
        names = list(self.steps)
        for name in names[self._done : names.index(last) + 1]:
            self.step(name)
            self._done += 1
        return self

    def step(self, name: str) -> Any:
        """Run one step now, whether it has run or not, as Airflow does for a task that is retried or cleared."""
        return self.steps[name]()

    def finish(self) -> LedgerRecord:
        """Run the steps that are left."""
        self.until(list(self.steps)[-1])
        return self.record

    def finish_after(self, name: str) -> LedgerRecord:
        """Run the steps after this one, which something else has done."""
        self._done = list(self.steps).index(name) + 1
        return self.finish()

    @property
    def record(self) -> LedgerRecord:
        """The record in the ledger."""
        assert self._record, "the run has not committed"
        return self._record

    def swap(self, number: int) -> None:
        """Swap with another BigQuery job, after `number` - 1 jobs of the step have failed."""
        self.world.swap(self.plan, self.checked, number)

    def prepare_load(self) -> LoadJob:
        """The load job: its id is recorded in the lease, and it is not made yet."""
        services = self.world.services
        candidate, manifest = read_candidate(services, self.plan)
        begin_load(services, self.plan, [job_id(self.plan, "load", 1)])
        job: LoadJob = self.world.record_job(self.plan, "load", table_load_configuration(services, candidate, manifest))
        return job

    def finish_load(self, job: LoadJob) -> None:
        """Wait for the load job, and record that staging is loaded."""
        job.result()
        finish_load(self.world.services, self.plan, read_candidate(self.world.services, self.plan)[1])

    def record_jobs(self, *steps: str) -> None:
        """Record BigQuery jobs in the lease. `steps`: the ends of their ids, such as `load-2`."""
        self.world.services.current.record_jobs(self.attempt, [job_id(self.plan, *_numbered(step)) for step in steps])

    def wait_for_approval(self) -> str | None:
        """Yield the lease to any other run until somebody approves. Returns the text for that person."""
        self.world.running.add(self.world.services.current.require_intent(self.attempt).run_id)
        self.world.services.current.begin_approval_wait(self.attempt)
        return self.approval_text

    @property
    def approval_text(self) -> str | None:
        """What whoever approves reads; None if no accepted check failed, so that nobody needs to."""
        return approval_text(self.world.services, self.plan)

    def approve(self) -> None:
        end_approval_wait(self.world.services, self.plan)

    def pretend_checked(self, checked: SwapSpec) -> None:
        """Go on as if the checks had allowed this swap."""
        self._checked = checked
        save_swap(self.world.services, checked)

    def end(self) -> bool:
        """Run what ends a failed or killed run: commit if it swapped, else discard. Returns whether it committed."""
        return commit_or_discard(self.world.services, self.world.services.current.require_intent(self.attempt))

    def add_steps(self, resolve: Callable[[], Attempt], *, spark: bool = True, **others: Callable[[], Any]) -> Run:
        """Add the steps that all DAGs share. `others`: further steps, each after the one that its name begins with.

        Such as `resolve_export`, which exports rows after the lease was taken.
        """

        def remember_plan() -> None:
            self._plan = resolve()

        def remember_checked() -> None:
            self._checked = self.world.check(self.plan)

        def remember_record() -> None:
            self._record = self.world.commit(self.plan)

        shared: dict[str, Callable[[], Any]] = {
            "resolve": remember_plan,
            "dedup": lambda: self.world.deduplicate(self.plan),
            "load": lambda: self.world.load(self.plan),
            "check": remember_checked,
            "swap": lambda: self.world.swap(self.plan, self.checked),
            "commit": remember_record,
        }
        for name, step in shared.items():
            if name != "dedup" or spark:
                self.steps[name] = step
            for other, other_step in others.items():
                if other.startswith(f"{name}_"):
                    self.steps[other.removeprefix(f"{name}_")] = other_step
        return self


def publish(world: FeedOnStandIn, name: str, **changes: Any) -> Run:
    """Publish the delivery `name`: resolve, dedup, load, check, swap, commit.

    `changes`: fields of the form: run_id, replay, engine, plan, accepted_checks, reason, dates.
    """
    return Run(world).add_steps(lambda: world.resolve(name, **changes))


def rollback(world: FeedOnStandIn, generation: int, *, run_id: str = "rollback", reason: str = "bad snapshot") -> Run:
    """Make an earlier generation live again: preview, resolve, load, check, swap, commit."""
    run, shown = Run(world), {}
    request = rollbacks.RollbackRequest(ROLLBACK_DAG, run_id, generation, reason)

    def preview() -> None:
        shown["live"], run.text = rollbacks.preview(world.services, request)

    def resolve() -> Attempt:
        return rollbacks.prepare(world.services, request, shown["live"])

    def load_unless_cloned() -> None:
        if run.plan.restored_at is None:
            world.load(run.plan)

    run.steps["preview"] = preview
    run.add_steps(resolve, spark=False)
    run.steps["load"] = load_unless_cloned
    return run


def bootstrap_request(**form: Any) -> bootstraps.BootstrapRequest:
    defaults = {"source_table": "", "compared_dates": 3, "reason": "", "duplicates": "refuse"}
    values: dict[str, Any] = {"dag_id": BOOTSTRAP_DAG, "run_id": "bootstrap", **defaults, **form}
    return bootstraps.BootstrapRequest(**{**values, "duplicates": Duplicates(values["duplicates"])})


def bootstrap(world: FeedOnStandIn, *, count_limit: int = NO_LIMIT, **form: Any) -> Run:
    """Take over a table's rows: preview, resolve, export, dedup, load, check, swap, commit, clean.

    `form`: run_id, source_table, duplicates, compared_dates, reason.
    """
    run, request, shown = Run(world), bootstrap_request(**form), {}

    def preview() -> None:
        shown["version"], run.text = bootstraps.preview(world.services, request, count_limit)

    def swap() -> None:
        require_unchanged(world.services, read_bootstrap_record(world.services, run.attempt).existing)
        world.swap(run.plan, run.checked)

    run.steps["preview"] = preview
    run.add_steps(
        lambda: bootstraps.prepare(world.services, request, shown["version"]),
        resolve_export=lambda: export_existing(world.services, run.attempt),
        commit_clean=lambda: drop_export(world.services, run.attempt),
    )
    run.steps["swap"] = swap
    return run


def rebuild(world: FeedOnStandIn, **form: Any) -> Run:
    """Write the table in the form of a changed feed file.

    Steps: preview, resolve, export, dedup, prepare, load, check, swap, commit, clean. `form`: run_id, reason, renamed,
    duplicates, compared_dates.
    """
    run, shown = Run(world), {}
    values = {"dag_id": REBUILD_DAG, "run_id": "rebuild", "reason": "another form", **form}
    request = rebuilds.RebuildRequest(**{**values, "duplicates": Duplicates(form.get("duplicates", "refuse"))})

    def preview() -> None:
        shown["live"], run.text = rebuilds.preview(world.services, request)

    def swap() -> None:
        rebuilds.prepare_swap(world.services, run.plan)
        world.swap(run.plan, run.checked)

    run.steps["preview"] = preview
    run.add_steps(
        lambda: rebuilds.prepare(world.services, request, shown["live"]),
        resolve_export=lambda: rebuilds.export(world.services, request, run.plan),
        dedup_prepare=lambda: rebuilds.prepare_staging_layout(world.services, run.plan),
        commit_clean=lambda: rebuilds.delete_copies(world.services, run.attempt),
    )
    run.steps["swap"] = swap
    return run


def erasure(world: FeedOnStandIn, keys: str | None, *, run_id: str = "erase", reason: str = "request 7") -> Run:
    """Erase the keys of a CSV text: preview, resolve, dedup, load, check, swap, commit, clean.

    `keys`: uploaded as the file of keys; None: the file is there, or is missing.
    """
    run, request = Run(world), erasures.ErasureRequest(ERASE_DAG, run_id, KEYS_FILE, reason)
    if keys is not None:
        world.services.store.put(world.services.layout.keys_to_erase(KEYS_FILE), keys)

    def preview() -> None:
        run.text = erasures.preview(world.services, request, NO_LIMIT)

    run.steps["preview"] = preview
    return run.add_steps(
        lambda: erasures.prepare(world.services, request),
        commit_clean=lambda: erasures.delete_leftovers(world.services, request),
    )


def _numbered(step: str) -> tuple[str, int]:
    name, number = step.rsplit("-", 1)
    return name, int(number)
