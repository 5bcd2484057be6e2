"""Runs the feed's DAGs in this process, without Airflow: as a whole, or step by step.

Nothing else in the tests knows which functions of the product a run consists of. The steps of one feed's publish are
methods of `FeedOnStandIn`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.cloud.bigquery import LoadJob

from dedup_clone.contract.attempt import Attempt, Duplicates
from dedup_clone.contract.records import to_json
from dedup_clone.operations import bootstrap as bootstraps
from dedup_clone.operations import erase as erasures
from dedup_clone.operations import rebuild as rebuilds
from dedup_clone.operations import rollback as rollbacks
from dedup_clone.operations import takeover
from dedup_clone.publish.attempts import SwapSpec
from dedup_clone.publish.load import begin_load, finish_load, prepare_load, read_candidate, table_load_configuration
from dedup_clone.publish.preview_publish import preview_publish
from dedup_clone.publish.recovery import commit_or_discard, require_no_other_run
from dedup_clone.state.ledger import LedgerRecord
from testkit.feed_on_stand_in import ERASE_DAG, KEYS_FILE, ROLLBACK_DAG, FeedOnStandIn, job_id

BOOTSTRAP_DAG = "feed_bootstrap"
REBUILD_DAG = "feed_rebuild"


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
        prepare_load(services, self.plan)
        candidate, manifest = read_candidate(services, self.plan.id)
        begin_load(services, self.plan, [job_id(self.plan, "load", 1)])
        job: LoadJob = self.world.record_job(self.plan, "load", table_load_configuration(services, candidate, manifest))
        return job

    def finish_load(self, job: LoadJob) -> None:
        """Wait for the load job, and record that staging is loaded."""
        job.result()
        finish_load(self.world.services, self.plan, read_candidate(self.world.services, self.plan.id)[1])

    def pretend_checked(self, checked: SwapSpec) -> None:
        """Go on as if the checks had allowed this swap."""
        self._checked = checked
        self.world.services.store.put(self.world.services.layout.swap_spec(checked.attempt), to_json(checked))

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
    """Publish the delivery `name`: resolve, dedup, load, check, swap, commit; before them preview if it accepts checks.

    `changes`: fields of the form: run_id, replay, engine, plan, accepted_checks, reason, dates.
    """
    run, shown = Run(world), {}

    def preview() -> None:
        shown["shown"], run.text = preview_publish(world.services, world.publish_request(name, **changes))

    if changes.get("accepted_checks"):
        run.steps["preview"] = preview
    return run.add_steps(lambda: world.resolve(name, **changes, **shown))


def rollback(world: FeedOnStandIn, generation: int, *, run_id: str = "rollback") -> Run:
    """Make an earlier generation live again: preview, resolve, load, check, swap, commit."""
    request = rollbacks.RollbackRequest(
        dag_id=ROLLBACK_DAG, run_id=run_id, generation=generation, reason="bad snapshot"
    )
    run = _operation(world, rollbacks, request, spark=False)

    def load_unless_cloned() -> None:
        if run.plan.restored_at is None:
            world.load(run.plan)

    run.steps["load"] = load_unless_cloned
    return run


def _operation(world: FeedOnStandIn, operation: Any, request: Any, **others: Any) -> Run:
    """The run of an operation: preview, and the steps that all DAGs share. `operation`: its module.

    `others`: as in `add_steps`, functions of the module that are called with the form and the attempt.
    """
    run, shown = Run(world), {}

    def preview() -> None:
        require_no_other_run(world.services, request)
        shown["before"], run.text = operation.preview(world.services, request)

    def resolve() -> Attempt:
        if not shown:
            preview()
        attempt: Attempt = operation.prepare(world.services, request, shown["before"])
        return attempt

    def step(function: Any) -> Any:
        return lambda: function(world.services, request, run._plan)

    run.steps["preview"] = preview
    run.add_steps(resolve, **{name: step(f) if callable(f) else f for name, f in others.items()})
    return run


def bootstrap(world: FeedOnStandIn, **form: Any) -> Run:
    """Take over a table's rows: preview, resolve, export, dedup, load, check, swap, commit, clean.

    `form`: run_id, duplicates, reason.
    """
    values = {"dag_id": BOOTSTRAP_DAG, "run_id": "bootstrap", "reason": "", **form}
    request = bootstraps.BootstrapRequest(**{**values, "duplicates": Duplicates(form.get("duplicates", "refuse"))})
    return _operation(world, bootstraps, request, resolve_export=takeover.export, commit_clean=takeover.after_commit)


def rebuild(world: FeedOnStandIn, **form: Any) -> Run:
    """Write the table in the form of a changed feed file.

    Steps: preview, resolve, export, dedup, load, check, swap, commit, clean. `form`: run_id, reason, renamed,
    duplicates.
    """
    values = {"dag_id": REBUILD_DAG, "run_id": "rebuild", "reason": "another form", **form}
    request = rebuilds.RebuildRequest(**{**values, "duplicates": Duplicates(form.get("duplicates", "refuse"))})
    return _operation(
        world,
        rebuilds,
        request,
        resolve_export=rebuilds.export,
        commit_clean=takeover.after_commit,
    )


def erasure(world: FeedOnStandIn, keys: str | None, *, run_id: str = "erase") -> Run:
    """Erase the keys of a CSV text: preview, resolve, dedup, load, check, swap, commit, clean.

    `keys`: uploaded as the file of keys; None: the file is there, or is missing.
    """
    request = erasures.ErasureRequest(dag_id=ERASE_DAG, run_id=run_id, keys_file=KEYS_FILE, reason="request 7")
    if keys is not None:
        world.services.store.put(world.services.layout.keys_to_erase(KEYS_FILE), keys)
    return _operation(world, erasures, request, commit_clean=erasures.after_commit)
