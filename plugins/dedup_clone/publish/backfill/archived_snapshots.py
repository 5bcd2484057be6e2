"""Lists the snapshots of an archive, and finds those that a backfill has to land. Changes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dedup_clone.contract.billing import GIB
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.environments import require_in_use
from dedup_clone.publish.services import Services
from dedup_clone.state.landing import Landing, Marker
from dedup_clone.state.store import ObjectInfo

_URI = re.compile(r"gs://([a-z0-9][a-z0-9_.-]+)/([^/].*?)/?")


@dataclass(frozen=True)
class BackfillRequest:
    """The form of a backfill run. `archive`: the URI of a folder.

    `first_id`, `last_id`: the lowest and the highest snapshot id to land, both included; None: no limit. Up to
    `at_once` snapshots are landed together, so that one publish includes them all. After that none is landed for
    `pause_minutes`.
    """

    archive: str
    first_id: int | None
    last_id: int | None
    at_once: int
    pause_minutes: int

    def bucket_and_prefix(self) -> tuple[str, str]:
        """The parts of `archive`. Raises ConfigurationError if it is not the URI of a folder."""
        match = _URI.fullmatch(self.archive)
        if not match:
            raise ConfigurationError(f"Archive [{self.archive}] is no folder, expected [gs://BUCKET/FOLDER].")
        return match[1], match[2]


@dataclass(frozen=True)
class ArchivedSnapshots:
    """The requested snapshots of the archive.

    `to_land`: the archive's latest marker of each snapshot that never landed, by ascending snapshot id. `landed_count`:
    the number of the requested snapshots that landed before; `landed`: their registered deliveries (several, if a
    snapshot was corrected), whether published, waiting or refused. `live`: the manifest of the live generation; None
    before the first publish.
    """

    to_land: tuple[Marker, ...]
    landed_count: int
    landed: tuple[Delivery, ...]
    live: Manifest | None


def find_archived(services: Services, archive: Landing, request: BackfillRequest) -> ArchivedSnapshots:
    """List the archive, which has the layout of a landing folder.

    Raises ConfigurationError if the archive has no requested snapshot, if some are late and the feed takes no late
    ones, and if the feed is retired.
    """
    require_in_use(services)
    # Of several markers of one snapshot id the latest counts: `markers` orders them by time.
    latest_markers = {marker.delivery.snapshot_id: marker for marker in archive.markers()}
    requested = {
        snapshot_id: marker
        for snapshot_id, marker in latest_markers.items()
        if (request.first_id is None or snapshot_id >= request.first_id)
        and (request.last_id is None or snapshot_id <= request.last_id)
    }
    if not requested:
        marker_name = f"{request.archive.rstrip('/')}/snapshot_id=N/{services.feed.landing.marker}"
        raise ConfigurationError(
            f"Archive [{request.archive}] has no complete snapshot of these ids, expected markers [{marker_name}]: "
            f"correct the form of the backfill."
        )
    generation = services.current.read().generation
    live = None if generation is None else services.manifests.read(generation)
    published = {delivery.snapshot_id for delivery in live.deliveries} if live else set[int]()
    registered = [delivery for delivery in services.arrivals.deliveries() if delivery.snapshot_id in requested]
    landed_ids = published | {delivery.snapshot_id for delivery in registered}
    to_land = tuple(requested[snapshot_id] for snapshot_id in sorted(requested) if snapshot_id not in landed_ids)
    if services.feed.update_id_mode is UpdateIdMode.LAST_CHANGED and published and to_land:
        late = [marker.delivery.snapshot_id for marker in to_land if marker.delivery.snapshot_id < max(published)]
        if late:
            raise ConfigurationError(
                f"Feed [{services.feed.feed}] is of mode [last_changed], which takes no late snapshot: [{len(late)}] "
                f"of the archive, from [{late[0]}] on, are older than the newest published one [{max(published)}]. "
                f"Backfill such a feed before its first publish."
            )
    return ArchivedSnapshots(to_land, len(requested) - len(to_land), tuple(registered), live)


def refuse_unexpected_objects(services: Services, marker: Marker, archived: list[ObjectInfo]) -> None:
    """Raise ContractViolation if the snapshot's folder in landing has objects that are not among `archived`."""
    landing = services.landing
    folder = landing.folder(marker.delivery.snapshot_id)
    expected = {f"{folder}{info.name.removeprefix(marker.folder)}" for info in archived}
    unexpected = [info.name for info in landing.store.objects(folder) if info.name not in expected]
    if unexpected:
        raise ContractViolation(
            f"Folder [{landing.store.uri(folder)}] has objects that the archive's snapshot lacks, such as "
            f"[{unexpected[0]}]: delete the folder if nobody is delivering this snapshot, then trigger the backfill "
            f"again, or clear its task if it has begun."
        )


def describe_backfill(services: Services, archive: Landing, request: BackfillRequest) -> str:
    """What the backfill would do, as Markdown for the operator who approves it.

    Raises what `find_archived` and `refuse_unexpected_objects` raise.
    """
    found = find_archived(services, archive, request)
    ids = [marker.delivery.snapshot_id for marker in found.to_land]
    if not ids:
        return f"Nothing to do: all [{found.landed_count}] snapshots of [{request.archive}] have landed before."
    size = 0
    for marker in found.to_land:
        objects = list(archive.store.objects(marker.folder))
        refuse_unexpected_objects(services, marker, objects)
        size += sum(info.size for info in objects)
    oldest, _ = services.retention_window()
    step_count = -(-len(ids) // request.at_once)
    return (
        f"Copies [{len(ids)}] snapshots, ids [{ids[0]}] to [{ids[-1]}], {size / GIB:.1f} GiB, from [{request.archive}] "
        f"to landing, in [{step_count}] steps; [{found.landed_count}] have landed before and are left out.\n\n"
        f"Each step is an ordinary publish. It starts when no delivery waits, at the earliest "
        f"[{request.pause_minutes}] minutes after the step before it. Rows of dates before [{oldest}] are dropped."
    )
