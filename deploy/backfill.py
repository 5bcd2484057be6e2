"""The verb `backfill`: shows which archived snapshots never landed.

With `--apply` it copies them to landing in the order of their ids, each while no delivery waits. Run again, it goes on
where it ended.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from dedup_clone.contract.costs import GIB
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.services import Services
from dedup_clone.state.landing import Landing, Marker
from dedup_clone.state.store import ObjectInfo, ObjectStore, in_parallel
from deploy.command_errors import passes_by_itself
from deploy.environment_settings import read_profile
from deploy.live_services import feed_services

POLL_S = 60.0
_URI = re.compile(r"gs://([a-z0-9][a-z0-9_.-]+)/([^/].*?)/?")


def run(options: argparse.Namespace, dags: Path) -> int:
    backfill = _open_backfill(options, dags)
    to_land = backfill.snapshots_to_land()
    print(backfill.describe(to_land))
    if to_land and not options.apply:
        print("Nothing was changed. Add `--apply` to land them.")
    elif to_land:
        _land_all(backfill)
    return 0


def _land_all(backfill: Backfill) -> None:
    """Land one snapshot after the other. Says what it waits for when that changes."""
    said = ""
    while True:
        try:
            waiting = backfill.waiting_delivery()  # before the list, which then has all that had landed by now
            to_land = backfill.snapshots_to_land()
            if not to_land:
                print("All snapshots have landed.")
                return
            text = f"Waits for delivery [{waiting}], which is not published."
            if not waiting:
                backfill.land(to_land[0])
                text = f"Landed snapshot [{to_land[0].delivery.snapshot_id}]; [{len(to_land) - 1}] are left."
        except Exception as error:
            if not passes_by_itself(error):
                raise
            text = f"Tries again, after an error: {error}"
        if text != said:
            print(text, flush=True)
            said = text
        sleep(POLL_S)


def _open_backfill(options: argparse.Namespace, dags: Path) -> Backfill:
    from google.cloud import storage

    match = _URI.fullmatch(options.archive)
    if not match:
        raise ConfigurationError(f"Archive [{options.archive}] is no folder, expected [gs://BUCKET/FOLDER].")
    services = feed_services(options.feed, dags)
    bucket = ObjectStore(storage.Client(project=read_profile(dags).project), match[1])
    archive = Landing(bucket, match[2], services.feed.landing.marker)
    return Backfill(services, archive, options.archive, options.first_id, options.last_id)


@dataclass(frozen=True)
class Backfill:
    """The snapshots of `archive` with ids from `first_id` to `last_id` (None: no limit), for one feed.

    The archive is read with the class for landing, because its folders have the same names. `uri`: of the archive.
    """

    services: Services
    archive: Landing
    uri: str
    first_id: int | None
    last_id: int | None

    def snapshots_to_land(self) -> list[Marker]:
        """The latest marker of each requested snapshot that never landed, by ascending snapshot id.

        Raises ConfigurationError if the archive has no requested snapshot, if some are late and the feed takes no late
        ones, and if the feed is retired.
        """
        services, requested = self.services, self._requested()
        current = services.current.read()
        current.require_in_use()
        published = [] if current.generation is None else services.manifests.read(current.generation).deliveries
        landed = {delivery.snapshot_id for delivery in (*published, *services.arrivals.deliveries())}
        to_land = [requested[snapshot_id] for snapshot_id in sorted(requested.keys() - landed)]
        if services.feed.update_id_mode is UpdateIdMode.LAST_CHANGED and published:
            newest = max(delivery.snapshot_id for delivery in published)
            late = [marker.delivery.snapshot_id for marker in to_land if marker.delivery.snapshot_id < newest]
            if late:
                raise ConfigurationError(
                    f"Feed [{services.feed.feed}] is of mode [last_changed], which takes no late snapshot: "
                    f"[{len(late)}] of the archive, from [{late[0]}] on, are older than the newest published one "
                    f"[{newest}]. Backfill such a feed before its first publish."
                )
        return to_land

    def _requested(self) -> dict[int, Marker]:
        """The latest marker of each requested snapshot: `markers` orders those of one snapshot by time."""
        requested = {
            marker.delivery.snapshot_id: marker
            for marker in self.archive.markers()
            if (self.first_id is None or marker.delivery.snapshot_id >= self.first_id)
            and (self.last_id is None or marker.delivery.snapshot_id <= self.last_id)
        }
        if not requested:
            marker_name = f"{self.uri.rstrip('/')}/snapshot_id=N/{self.services.feed.landing.marker}"
            raise ConfigurationError(
                f"Archive [{self.uri}] has no complete snapshot of these ids, expected markers [{marker_name}]."
            )
        return requested

    def describe(self, to_land: list[Marker]) -> str:
        """What will land, for the operator. Raises ContractViolation as `_objects_of` does."""
        if not to_land:
            return f"Nothing to do: all snapshots of [{self.uri}] have landed before."
        ids = [marker.delivery.snapshot_id for marker in to_land]
        size = sum(info.size for marker in to_land for info in self._objects_of(marker))
        oldest, _ = self.services.retention_window()
        return (
            f"[{len(ids)}] snapshots of [{self.uri}] never landed: ids [{ids[0]}] to [{ids[-1]}], "
            f"{size / GIB:.1f} GiB. Each becomes an ordinary publish. Rows of dates before [{oldest}] are dropped."
        )

    def waiting_delivery(self) -> str:
        """The name of a delivery that is not published; empty if none waits."""
        services = self.services
        unregistered = services.arrivals.unregistered(services.landing.markers())
        waiting = [marker.delivery for marker in unregistered]
        waiting = waiting or list(services.arrivals.backlog(services.find_live()).apply)
        return waiting[0].name if waiting else ""

    def land(self, marker: Marker) -> None:
        """Copy the snapshot's objects, the marker last. A retry after an interruption copies them all again."""
        landing, objects = self.services.landing, self._objects_of(marker)

        def copy(info: ObjectInfo) -> None:
            landing.store.copy_from(self.archive.store, info, self._landed_name(marker, info.name))

        in_parallel(copy, [info for info in objects if info.name != marker.name])
        for info in objects:
            if info.name == marker.name:
                copy(info)

    def _objects_of(self, marker: Marker) -> list[ObjectInfo]:
        """The snapshot's objects in the archive.

        Raises ContractViolation if its folder in landing has others: somebody else may be delivering the snapshot.
        """
        landing, objects = self.services.landing, list(self.archive.store.objects(marker.folder))
        expected = {self._landed_name(marker, info.name) for info in objects}
        folder = landing.folder(marker.delivery.snapshot_id)
        unexpected = [info.name for info in landing.store.objects(folder) if info.name not in expected]
        if unexpected:
            raise ContractViolation(
                f"Folder [{landing.store.uri(folder)}] has objects that the archive's snapshot lacks, such as "
                f"[{unexpected[0]}]: delete the folder if nobody is delivering this snapshot, then run the command "
                f"again."
            )
        return objects

    def _landed_name(self, marker: Marker, name: str) -> str:
        folder = self.services.landing.folder(marker.delivery.snapshot_id)
        return f"{folder}{name.removeprefix(marker.folder)}"
