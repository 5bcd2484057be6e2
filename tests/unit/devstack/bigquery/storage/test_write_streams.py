"""Write streams after the end of the process: no row is lost or appended twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.garbage_collector import GarbageCollector
from devstack.bigquery.storage.model import TableSettings
from devstack.bigquery.storage.write_streams import BUFFERED, COMMITTED, LIFETIME_US, PENDING
from devstack.bigquery.write_api import created_streams
from devstack.bigquery.write_api.created_streams import CreatedStreams
from devstack.bigquery.write_api.storage_errors import WriteApiError
from devstack.bigquery.write_api.stream_names import StreamName
from tests.unit.devstack.bigquery.storage.tables import SCHEMA, open_catalog, put, rows_of, table_id

TABLE = table_id("t")


def numbered(*numbers: int) -> Callable[[TableSettings, int], pa.Table]:
    rows = [{"day": None, "number": number} for number in numbers]
    return lambda settings, now_us: pa.Table.from_pylist(rows, schema=arrow_schema(SCHEMA))


def visible(catalog: Catalog) -> list[int]:
    version = catalog.get(TABLE)
    return [
        number
        for segment in version.queried_segments()
        for number in pq.read_table(catalog.segments.path(segment)).column("number").to_pylist()
    ]


def open_streams(folder: Path) -> tuple[Catalog, CreatedStreams]:
    catalog = open_catalog(folder)
    if catalog.find(TABLE) is None:
        put(catalog, "t", rows_of([], 0))
    return catalog, CreatedStreams(catalog)


def create(streams: CreatedStreams, kind: str) -> StreamName:
    return StreamName(TABLE, streams.create(TABLE, kind).id)


def append(streams: CreatedStreams, name: StreamName, offset: int, *numbers: int) -> int:
    connection = object()
    streams.connect(name, connection)
    return streams.append(name, connection, offset, numbered(*numbers))


def restart_before_the_record(
    monkeypatch: pytest.MonkeyPatch, folder: Path, catalog: Catalog, step: Callable[[], Any]
) -> tuple[Catalog, CreatedStreams]:
    """The step's commit of the table is written, the stream's own record is not."""

    def killed(stream: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(catalog.write_streams, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            step()
    return open_streams(folder)


def test_an_append_that_was_committed_before_a_kill_is_not_appended_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, streams = open_streams(tmp_path)
    name = create(streams, COMMITTED)
    append(streams, name, 0, 1, 2)
    catalog, streams = restart_before_the_record(monkeypatch, tmp_path, catalog, lambda: append(streams, name, 2, 3))
    with pytest.raises(WriteApiError, match="expected offset 3, received 2"):
        append(streams, name, 2, 3)
    assert append(streams, name, 3, 4) == 3
    assert visible(catalog) == [1, 2, 3, 4]


def test_a_flush_that_was_committed_before_a_kill_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, streams = open_streams(tmp_path)
    name = create(streams, BUFFERED)
    append(streams, name, 0, 1, 2, 3)
    catalog, streams = restart_before_the_record(monkeypatch, tmp_path, catalog, lambda: streams.flush(name, 1))
    assert streams.flush(name, 2) == 2
    assert visible(catalog) == [1, 2, 3]


def test_a_batch_commit_before_a_kill_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, streams = open_streams(tmp_path)
    name = create(streams, PENDING)
    append(streams, name, 0, 1)
    streams.finalize(name)
    catalog, streams = restart_before_the_record(
        monkeypatch, tmp_path, catalog, lambda: streams.batch_commit(TABLE, [name])
    )
    committed_us, (error,) = streams.batch_commit(TABLE, [name])
    assert (committed_us, error.storage_code) == (0, created_streams.Code.STREAM_ALREADY_COMMITTED)
    assert visible(catalog) == [1]


def test_rows_of_pending_streams_survive_restart_and_housekeeping_for_a_week(tmp_path: Path) -> None:
    _, streams = open_streams(tmp_path)
    name, forgotten = create(streams, PENDING), create(streams, PENDING)
    append(streams, name, 0, 1)
    append(streams, forgotten, 0, 2)
    catalog, streams = open_streams(tmp_path)
    GarbageCollector(catalog).sweep(removes_segments_always=True)
    streams.finalize(name)
    streams.batch_commit(TABLE, [name])
    assert visible(catalog) == [1]
    kept = catalog.write_streams.files()
    assert kept <= catalog.segments.files()
    catalog.clock.advance(LIFETIME_US + 1)
    GarbageCollector(catalog).sweep()
    assert (visible(catalog), kept & catalog.segments.files()) == ([1], set())
    with pytest.raises(WriteApiError, match="never created"):
        streams.finalize(forgotten)


def test_streams_of_an_hour_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(created_streams, "MAXIMUM_CREATED_PER_HOUR", 2)
    catalog, streams = open_streams(tmp_path)
    for _ in range(2):
        create(streams, COMMITTED)
    with pytest.raises(WriteApiError, match="Exceeded quota for CreateWriteStream"):
        create(streams, COMMITTED)
    catalog.clock.advance(created_streams.HOUR_US)
    create(streams, COMMITTED)
