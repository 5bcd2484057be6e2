"""`python -m deploy backfill`: snapshots of an archive are landed in order, each while no delivery waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.api_core.exceptions import Forbidden, ServiceUnavailable
from google.cloud.storage import Client

from dedup_clone.contract.table import UpdateIdMode
from testkit.deliveries import register_all
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row
from testkit.operations import retire
from tests.contract.publish.archived_snapshots import Archive


@pytest.fixture
def archive(world: FeedOnStandIn, tmp_path: Path) -> Archive:
    archive = Archive(world, tmp_path)
    archive.put(5, [row(5, 2, 52), row(5, 3, 53)])
    archive.put(3, [row(3, 1, 31), row(3, 2, 32)])
    return archive


def landed(archive: Archive) -> list[str]:
    """What has landed and is not registered yet, registered."""
    return [name.split("-")[0] for name in register_all(archive.world)]


def test_archived_snapshots_fill_in_what_newer_ones_lack_one_after_the_other(
    world: FeedOnStandIn, archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = world.land(7, [row(7, 3, 73)])
    world.overwrite(3, f"date={TODAY}/part-0.parquet", b"half")  # a copy that was interrupted is made again
    seen: list[list[str]] = []

    def steps() -> Iterator[None]:
        seen.append(landed(archive))  # it waits for every delivery
        world.publish(newest)
        yield
        yield  # 3 has landed; it waits although nobody has noticed it yet
        seen.append([name.split("-")[0] for name in archive.publish_what_landed()])
        yield
        seen.append([name.split("-")[0] for name in archive.publish_what_landed()])
        yield

    feed_at_work = steps()
    assert archive.backfill("--apply", meanwhile=lambda: next(feed_at_work)) == 0
    assert seen == [[], ["3"], ["5"]]
    assert world.rows() == expected(row(3, 1, 31), row(5, 2, 52), row(7, 3, 73))
    printed = capsys.readouterr().out.splitlines()
    assert "[2] snapshots of [gs://" in printed[0]
    assert printed[1:] == [
        f"Waits for delivery [{newest}], which is not published.",
        "Landed snapshot [3]; [1] are left.",
        printed[3],
        "Landed snapshot [5]; [0] are left.",
        "All snapshots have landed.",
    ]
    assert printed[3].startswith("Waits for delivery [3-")
    assert archive.backfill("--apply") == 0
    assert "Nothing to do" in capsys.readouterr().out


def test_nothing_lands_until_it_is_applied(archive: Archive, capsys: pytest.CaptureFixture[str]) -> None:
    for options, shown in (
        ((), "[2] snapshots of [gs://state/"),
        (("--first-id", "4"), "ids [5] to [5]"),
        (("--last-id", "4"), "ids [3] to [3]"),
    ):
        assert archive.backfill(*options) == 0
        assert shown in (text := capsys.readouterr().out)
        assert "Nothing was changed." in text
    assert landed(archive) == []


def test_objects_of_somebody_else_in_the_folder_stop_the_backfill(
    world: FeedOnStandIn, archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    world.overwrite(3, f"date={TODAY}/part-9.parquet", b"being written")
    assert archive.backfill("--apply") == 1
    assert "part-9" in capsys.readouterr().err
    assert landed(archive) == []


def test_what_cannot_be_backfilled_is_refused(
    world: FeedOnStandIn, archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    assert archive.backfill("--last-id", "2") == 1
    assert "has no complete snapshot of these ids" in capsys.readouterr().err
    assert archive.backfill("--archive", "gs://state") == 1
    assert "expected [gs://BUCKET/FOLDER]" in capsys.readouterr().err
    world.publish(world.land(4, [row(4, 3)]))
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    assert archive.backfill("--apply") == 1
    assert "takes no late snapshot: [1]" in capsys.readouterr().err
    assert landed(archive) == []
    retire(world, "keep")
    assert archive.backfill("--apply") == 1
    assert "was retired" in capsys.readouterr().err


def test_a_backfill_outlives_an_outage_and_ends_with_a_permanent_error(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors: list[Exception] = [ServiceUnavailable("away"), Forbidden("no right")]
    landing, list_blobs = f"{archive.world.feed.landing.prefix}/", Client.list_blobs

    def fail(client: Client, bucket: object, **options: object) -> object:
        if options.get("prefix") == landing:
            raise errors.pop(0)
        return list_blobs(client, bucket, **options)

    monkeypatch.setattr(Client, "list_blobs", fail)
    assert archive.backfill("--apply") == 1
    captured = capsys.readouterr()
    assert "Tries again, after an error: 503 away" in captured.out
    assert "403 no right" in captured.err
    assert errors == []
