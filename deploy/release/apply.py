"""Carries a plan out with `gcloud storage`, in an order in which no DAG meets a file that is not there yet."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dedup_clone.contract.errors import ConfigurationError, DedupCloneError
from dedup_clone.state.store import ObjectStore
from deploy.release.content import Item, Print
from deploy.release.deployed import Deployed, DeployedList
from deploy.release.plan import Action, Plan, make_plan
from deploy.settings import SPARK_CODE_PREFIX

COMMAND_TIMEOUT_S = 600


class ReleaseFailed(DedupCloneError):
    """A command failed, or the buckets are not as the plan wants them. Deploying again goes on from there."""


class Run(Protocol):
    """Runs a command with a text as its input. Raises ReleaseFailed with the command's own words."""

    def __call__(self, command: Sequence[str], text: str = "") -> None: ...


def run_command(command: Sequence[str], text: str = "") -> None:
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise ReleaseFailed(
            f"[{command[0]}] is not installed: install the Google Cloud CLI and run `gcloud auth login`."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ReleaseFailed(f"[{' '.join(command)}] took longer than {COMMAND_TIMEOUT_S} s: deploy again.") from error
    if done.returncode != 0:
        raise ReleaseFailed(
            f"[{' '.join(command)}] ended with [{done.returncode}], expected [0]:\n{done.stderr.strip()}\n"
            f"Mend what it names (`make doctor` checks roles and buckets) and deploy again: it goes on from here."
        )


class Release:
    """One release into the buckets of one environment."""

    def __init__(self, items: Sequence[Item], environment: ObjectStore, state: ObjectStore, run: Run) -> None:
        self._items = items
        self._environment = environment
        self._state = state
        self._list = DeployedList(environment)
        self._run = run
        self._deployed = Deployed()

    def plan(self) -> Plan:
        """Compares; writes nothing."""
        self._deployed = self._list.read()
        return make_plan(self._items, self._found(), self._deployed)

    def apply(self, plan: Plan, *, take_over: bool = False) -> None:
        """Carry out `plan`, the last that `plan()` gave.

        `take_over`: also replace objects in the way that no release has laid there. Raises ConfigurationError for
        those, LostRace when another release is under way, ReleaseFailed when a command fails.
        """
        if plan.foreign and not take_over:
            raise ConfigurationError(
                f"[{len(plan.foreign)}] objects are in the way that no release has laid there and that differ, the "
                f"first is [{plan.foreign[0]}]: move them, or replace them by `make deploy TAKE_OVER=1`."
            )
        if plan.changes:
            # Before the first change: whatever a release that dies has written is known as ours to the next one.
            self._list.write(Deployed(self._deployed.objects | plan.after.objects, self._deployed.retired))
            self._upload(plan)
            self._delete(plan)
            self._verify()
        if plan.changes or plan.after != self._deployed:
            self._list.write(plan.after)

    def _upload(self, plan: Plan) -> None:
        items = [change.item for change in plan.of(Action.CREATE, Action.REPLACE) if change.item is not None]
        for phase in _phases(items):
            with tempfile.TemporaryDirectory(prefix="dedup-clone-release-") as folder:
                for item in phase:
                    path = Path(folder) / item.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(item.content)
                tops = sorted(str(path) for path in Path(folder).iterdir())
                self._run(["gcloud", "storage", "cp", "--recursive", *tops, f"gs://{phase[0].bucket}/"])

    def _delete(self, plan: Plan) -> None:
        if addresses := [change.uri for change in plan.of(Action.DELETE)]:
            self._run(["gcloud", "storage", "rm", "--read-paths-from-stdin"], "\n".join(addresses) + "\n")

    def _verify(self) -> None:
        left = make_plan(self._items, self._found(), self._deployed)
        if left.changes:
            raise ReleaseFailed(
                f"[{left.changes[0].uri}] is not as deployed, with [{len(left.changes)}] objects in all: somebody else "
                f"writes to these buckets. Look who, then deploy again."
            )

    def _found(self) -> Mapping[str, Print]:
        from google.api_core.exceptions import Forbidden, NotFound

        places = [(self._environment, "dags/"), (self._environment, "plugins/"), (self._state, SPARK_CODE_PREFIX)]
        found = {}
        for store, prefix in places:
            try:
                found.update({store.uri(info.name): Print(info.crc32c, info.size) for info in store.objects(prefix)})
            except (NotFound, Forbidden) as error:
                raise ReleaseFailed(
                    f"Bucket [{store.bucket}] cannot be listed: {error.message}. Correct its name in "
                    f"deploy/environment.yaml or dags/profiles/gcp.yaml, or ask `make doctor` for what is missing."
                ) from error
        return found


def _phases(items: Iterable[Item]) -> list[list[Item]]:
    """Spark's code first, then what DAGs import and read, then the DAGs and the record that names Spark's code."""
    phases: dict[int, list[Item]] = {}
    for item in items:
        phases.setdefault(_rank(item), []).append(item)
    return [phases[rank] for rank in sorted(phases)]


def _rank(item: Item) -> int:
    if item.name.startswith(SPARK_CODE_PREFIX):
        return 0
    return 1 if item.part in ("sql", "plugins") else 2
