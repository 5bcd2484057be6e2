"""Runs the feed's DAGs in this process, without Airflow: as a whole, or step by step.

Nothing else in the tests knows which functions of the product a run consists of. The steps of one feed's publish are
methods of `FeedOnStandIn`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from typing import Any
from unittest.mock import Mock, patch

from google.api_core.exceptions import Forbidden, ServiceUnavailable

from dedup_clone.contract.attempt import Attempt, Duplicates
from dedup_clone.contract.manifest import Manifest
from dedup_clone.operations import bootstrap as bootstraps
from dedup_clone.operations import erase as erasures
from dedup_clone.operations import rebuild as rebuilds
from dedup_clone.operations import retire as retirements
from dedup_clone.operations import rollback as rollbacks
from dedup_clone.operations.lost_records import RecoveryPlan, carry_out, plan_recovery
from dedup_clone.operations.takeover import drop_export, export_existing
from dedup_clone.orchestration.runners.sizing import read_workload, size_run
from dedup_clone.orchestration.watchdog import reporting
from dedup_clone.publish import load
from dedup_clone.publish.attempts import SwapSpec, save_swap
from dedup_clone.publish.changes_table import load_changes
from dedup_clone.publish.check import approval_text, end_approval_wait
from dedup_clone.publish.commit import prune
from dedup_clone.publish.existing_table import read_bootstrap_record, require_unchanged
from dedup_clone.publish.held_deliveries import discard_held
from dedup_clone.publish.preview_publish import preview_publish
from dedup_clone.publish.recovery import commit_or_discard, recover
from dedup_clone.publish.sql_checks import run_sql_checks
from dedup_clone.settings.spark_settings import Runner, SparkSize
from dedup_clone.state.arrivals import LandingWatch
from dedup_clone.state.current import Retirement, TargetAction
from dedup_clone.state.ledger import LedgerRecord
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse
from dedup_clone.warehouse.jobs import Jobs
from testkit.feed_on_stand_in import ERASE_DAG, KEYS_FILE, ROLLBACK_DAG, FeedOnStandIn, job_id

BOOTSTRAP_DAG = "feed_bootstrap"
REBUILD_DAG = "feed_rebuild"
RETIRE_DAG = "feed_retire"
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


def delete_rebuilt_copies(world: FeedOnStandIn) -> None:
    """Run the last task of the rebuild that made the live generation."""
    manifest = _live_manifest(world)
    assert manifest
    rebuilds.delete_copies(world.services, manifest.attempt)


def retirement_preview(world: FeedOnStandIn, target: str) -> str:
    """What the retire DAG shows for approval."""
    return retirements.preview(world.services, _retirement_request(target))


def retire(world: FeedOnStandIn, target: str) -> Retirement:
    """Retire the feed. `target`: keep, export or drop."""
    return retirements.retire(world.services, _retirement_request(target))


def _retirement_request(target: str) -> retirements.RetirementRequest:
    return retirements.RetirementRequest(RETIRE_DAG, "retire", TargetAction(target), "no longer needed")


def dry_run_of(world: FeedOnStandIn, name: str, **changes: Any) -> str:
    """What the publish DAG shows for a dry run of the delivery."""
    return preview_publish(world.services, world.publish_request(name, **changes))


def discard_delivery(world: FeedOnStandIn, name: str, *, reason: str = "garbage") -> None:
    """Take a held delivery out of what may be published, as a person does in the form."""
    (delivery,) = [found for found in world.services.arrivals.deliveries() if found.name == name]
    discard_held(world.services, delivery, run_id="by-hand", reason=reason)


def held_deliveries(world: FeedOnStandIn) -> list[str]:
    """The names of the deliveries that wait for a person's decision, oldest snapshot first."""
    return [delivery.name for delivery in world.services.arrivals.backlog(_live_manifest(world)).held]


def waiting_deliveries(world: FeedOnStandIn) -> list[str]:
    """The names of the deliveries that the next publish applies, oldest snapshot first."""
    return [delivery.name for delivery in world.services.arrivals.backlog(_live_manifest(world)).apply]


def _live_manifest(world: FeedOnStandIn) -> Manifest | None:
    generation = world.services.current.read().generation
    return None if generation is None else world.services.manifests.read(generation)


def executors_for(world: FeedOnStandIn, attempt: Attempt) -> int:
    """How many executors the attempt's Spark job gets on Dataproc Serverless."""
    return size_run(read_workload(world.services, attempt.id), SparkSize(), Runner.SERVERLESS).executors


def recover_lease(world: FeedOnStandIn, *, run_id: str = "other", is_replay: bool = False) -> None:
    """Do what another run does first: commit or discard what a dead run began."""
    recover(world.services, dag_id="other", run_id=run_id, is_replay=is_replay)


def recover_records(world: FeedOnStandIn, *, table_is_gone: bool = False) -> RecoveryPlan:
    """Restore lost records, as `deploy recover` does. Returns the plan."""
    plan = plan_recovery(world.services, table_is_gone=table_is_gone)
    carry_out(world.services, plan, table_is_gone=table_is_gone)
    return plan


def delete_obsolete(world: FeedOnStandIn) -> None:
    """Delete the files that nobody needs any more, as the last task of a publish does."""
    prune(world.services)


def load_waiting_changes(world: FeedOnStandIn) -> None:
    """Load what the table of changes lacks, as the watchdog does."""
    load_changes(world.services)


@contextmanager
def small_limits(**limits: int) -> Iterator[None]:
    """Lower limits of the load step."""
    names: dict[str, tuple[Any, str]] = {
        "table_files": (load, "MAX_TABLE_FILES"),
        "uris_per_job": (load, "URIS_PER_JOB"),
        "loads_at_once": (load, "LOADS_AT_ONCE"),
    }
    with ExitStack() as patches:
        for name, value in limits.items():
            patches.enter_context(patch.object(*names[name], value))
        yield


def load_dates_of(run: Run, days: list[date]) -> list[float]:
    """Load single dates of a run's candidate. Returns the seconds of each pause between loads, which are left out."""
    pauses: list[float] = []
    candidate, manifest = load.read_candidate(run.world.services, run.plan)
    load.load_dates(run.world.services, run.plan, candidate, manifest, tuple(days), sleep=pauses.append)
    return pauses


def _numbered(step: str) -> tuple[str, int]:
    name, number = step.rsplit("-", 1)
    return name, int(number)


def create_table(world: FeedOnStandIn, name: str) -> None:
    """Create a table as the feed file declares it."""
    warehouse = world.services.warehouse
    warehouse.create_staging(warehouse.table_names(name, name), world.feed.table.to_contract())


def late_tables(world: FeedOnStandIn) -> list[str]:
    """The tables that have lacked rows for so long that the watchdog reports it."""
    return list(reporting.late_tables(world.services))


def sql_check_levels(run: Run, *, change_meanwhile: Callable[[], Any]) -> list[str]:
    """The levels of the feed's SQL checks, if staging changes after the moment that the swap would clone."""
    services = run.world.services
    moment = services.warehouse.observe(services.names, run.world.feed.staging).observed_at
    change_meanwhile()
    return [result.level.value for result in run_sql_checks(services, moment)[0]]


@contextmanager
def queries_that_read(size: int) -> Iterator[None]:
    """Let dry runs say that queries read so many bytes."""
    with patch.object(Jobs, "dry_run_select_bytes", lambda jobs, configuration: size):
        yield


def policies_of(world: FeedOnStandIn, table: str, *, page_size: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """The row access policies and the column tags that the product finds, in answers of this page size."""
    connection: Any = world.bigquery._connection
    ask = connection.api_request

    def ask_for_small_pages(**request: Any) -> Any:
        if request["method"] == "GET" and request["path"].endswith("/rowAccessPolicies"):
            request["query_params"] = {**request.get("query_params", {}), "pageSize": page_size}
        return ask(**request)

    with patch.object(connection, "api_request", ask_for_small_pages):
        found = world.services.warehouse.policies(table)
    return found.row_access, found.column_tags


class Away(ServiceUnavailable):
    """BigQuery does not answer."""


@contextmanager
def bigquery_away() -> Iterator[None]:
    """Let the steps get no answer from BigQuery about tables."""
    with patch.object(Warehouse, "table", Mock(side_effect=Away("away"))):  # type: ignore[no-untyped-call]
        yield


def register_all(world: FeedOnStandIn) -> list[str]:
    """Register what has landed, as the watch DAG does. Returns the names of the new deliveries."""
    services = world.services
    markers = services.arrivals.unregistered(services.landing.markers())
    for marker in markers:
        services.arrivals.register(services.landing, marker)
    return [marker.delivery.name for marker in markers]


@contextmanager
def hidden_jobs(reason: str = "accessDenied") -> Iterator[None]:
    """Let BigQuery deny access to the jobs of another account."""
    denied = {"reason": reason, "message": "Access Denied: Job local-dev:US.load"}
    hidden = Forbidden("Access Denied", errors=[denied])  # type: ignore[no-untyped-call]
    with patch.object(Warehouse, "job", Mock(side_effect=hidden)):
        yield


class Polling:
    """The watch DAG's trigger, which polls landing.

    `requested`: how many markers the last poll requested. `listings`: how often the arrival records were listed.
    """

    def __init__(self, world: FeedOnStandIn, *, polls_per_full_listing: int) -> None:
        services, self.world = world.services, world
        self.requested = self.listings = 0
        self._watch = LandingWatch(services.landing, services.arrivals, polls_per_full_listing=polls_per_full_listing)

    def poll(self) -> list[int]:
        """The ids of the snapshots whose markers are new."""
        stat, objects = ObjectStore.stat, ObjectStore.objects

        def counted(store: ObjectStore, names: list[str]) -> Any:
            self.requested = len(names)
            return stat(store, names)

        def listed(store: ObjectStore, prefix: str, **options: Any) -> Any:
            self.listings += prefix.endswith("/arrivals/")
            return objects(store, prefix, **options)

        with patch.object(ObjectStore, "stat", counted), patch.object(ObjectStore, "objects", listed):
            return [marker.delivery.snapshot_id for marker in self._watch.new_markers()]
