"""Applies a release plan. Files are uploaded before the DAGs that need them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dedup_clone.contract.errors import ConfigurationError, DedupCloneError
from dedup_clone.state.store import ObjectStore, in_parallel
from deploy.environment_settings import SPARK_CODE_PREFIX
from deploy.release.release_content import ContentChecksum, ReleaseObject
from deploy.release.release_plan import Action, Deployed, Plan, make_plan

if TYPE_CHECKING:
    from google.cloud.storage import Client

LIST_NAME = "dedup-clone/deployed.json"  # in the environment's bucket, outside the folders that Airflow synchronises


class ReleaseFailed(DedupCloneError):
    """A bucket cannot be listed, or the buckets differ from the release afterwards.

    The next release makes what is missing.
    """


class Release:
    """A release to the environment's bucket (DAGs, plugins, SQL) and the state bucket (the Spark job)."""

    def __init__(
        self, items: Sequence[ReleaseObject], client: Client, *, environment_bucket: str, state_bucket: str
    ) -> None:
        self._items = items
        self._client = client
        self._environment = ObjectStore(client, environment_bucket)
        self._state = ObjectStore(client, state_bucket)
        self._deployed = Deployed()
        self._list_generation = 0  # the object generation of LIST_NAME; 0 before the first release

    def plan(self) -> Plan:
        """Compare the release with the buckets, and change nothing. Raises ReleaseFailed."""
        stored = self._environment.read(LIST_NAME)
        if stored is not None:
            record = json.loads(stored.text)
            self._deployed = Deployed(frozenset(record["objects"]), frozenset(record["retired"]))
            self._list_generation = stored.object_generation
        return make_plan(self._items, self._objects_in_buckets(), self._deployed)

    def apply(self, plan: Plan, *, take_over: bool = False) -> None:
        """Apply `plan`, which must be the last result of `plan()`.

        Raises ConfigurationError when the plan would replace objects that no release uploaded, unless `take_over`;
        LostRace when another release runs; ReleaseFailed when the buckets differ afterwards.
        """
        if plan.not_ours and not take_over:
            raise ConfigurationError(
                f"[{len(plan.not_ours)}] objects that no release has uploaded would be replaced, the "
                f"first is [{plan.not_ours[0]}]: move them, or replace them by `make deploy TAKE_OVER=1`."
            )
        if plan.changes:
            # Written before the first change, so that after a crash the next release knows these objects.
            self._write_list(Deployed(self._deployed.objects | plan.after.objects, self._deployed.retired))
            self._upload(plan)
            self._delete(plan)
            self._verify()
        if plan.changes or plan.after != self._deployed:
            self._write_list(plan.after)

    def _write_list(self, deployed: Deployed) -> None:
        """Replace the list of deployed objects. Raises LostRace when another release wrote it meanwhile."""
        record = {"objects": sorted(deployed.objects), "retired": sorted(deployed.retired)}
        text = json.dumps(record, indent=1) + "\n"
        self._list_generation = self._environment.replace(
            LIST_NAME, text, expected_object_generation=self._list_generation
        )

    def _upload(self, plan: Plan) -> None:
        from google.cloud.storage.retry import DEFAULT_RETRY

        def upload(item: ReleaseObject) -> None:
            blob = self._client.bucket(item.bucket).blob(item.name)
            blob.upload_from_string(item.content, "application/octet-stream", retry=DEFAULT_RETRY)

        items = [change.item for change in plan.changes_of(Action.CREATE, Action.REPLACE) if change.item is not None]
        for phase in _phases(items):
            in_parallel(upload, phase)

    def _delete(self, plan: Plan) -> None:
        from google.api_core.exceptions import NotFound
        from google.cloud.storage.blob import Blob
        from google.cloud.storage.retry import DEFAULT_RETRY

        def delete(uri: str) -> None:
            with contextlib.suppress(NotFound):
                Blob.from_uri(uri, self._client).delete(retry=DEFAULT_RETRY)

        in_parallel(delete, [change.uri for change in plan.changes_of(Action.DELETE)])

    def _verify(self) -> None:
        remaining = make_plan(self._items, self._objects_in_buckets(), self._deployed)
        if remaining.changes:
            raise ReleaseFailed(
                f"[{len(remaining.changes)}] objects differ from this release after its upload, the first is "
                f"[{remaining.changes[0].uri}]: somebody else writes to these buckets. Find out who, then deploy again."
            )

    def _objects_in_buckets(self) -> Mapping[str, ContentChecksum]:
        from google.api_core.exceptions import Forbidden, NotFound

        prefixes = [(self._environment, "dags/"), (self._environment, "plugins/"), (self._state, SPARK_CODE_PREFIX)]
        found = {}
        for store, prefix in prefixes:
            try:
                found.update(
                    {store.uri(info.name): ContentChecksum(info.crc32c, info.size) for info in store.objects(prefix)}
                )
            except (NotFound, Forbidden) as error:
                raise ReleaseFailed(
                    f"Bucket [{store.bucket}] cannot be listed: {error.message}. Correct its name in "
                    f"the files of environment and profile, or let `make doctor` find what is missing."
                ) from error
        return found


def _phases(items: Iterable[ReleaseObject]) -> list[list[ReleaseObject]]:
    """The objects in the order of their upload, grouped: whatever an object needs is in an earlier group.

    First the Spark code, then plugins and SQL, then the DAGs and the record in which they find the Spark code's URIs.
    """
    phases: dict[int, list[ReleaseObject]] = {}
    for item in items:
        phases.setdefault(_phase_number(item), []).append(item)
    return [phases[number] for number in sorted(phases)]


def _phase_number(item: ReleaseObject) -> int:
    if item.name.startswith(SPARK_CODE_PREFIX):
        return 0
    return 1 if item.part in ("sql", "plugins") else 2
