"""How an extract job divides a table into files. Source: "Export table data", limitations."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.jobs import extract_job
from devstack.bigquery.jobs.job_record import JobRecord
from devstack.bigquery.jobs.job_runner import JobContext
from devstack.bigquery.jobs.object_store import ObjectStore
from tests.unit.devstack.bigquery.jobs.local_warehouse import Warehouse

ROW_BYTES = 8


class InMemoryObjects(ObjectStore):
    """Stores written objects in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}

    def write(self, uri: str, content: bytes) -> None:
        self.objects[uri] = content


def extracted(warehouse: Warehouse, uri: str) -> dict[str, list[int]]:
    """Runs an extract job and returns the values in each file."""
    source = {"projectId": "local-dev", "datasetId": "d", "tableId": "t"}
    configuration = {"extract": {"sourceTable": source, "destinationUris": [uri], "destinationFormat": "PARQUET"}}
    record = JobRecord("local-dev", "US", "job", configuration, 0)
    stand_in, objects = warehouse.stand_in, InMemoryObjects()
    context = JobContext(record, stand_in.jobs.store, stand_in.clock)
    statistics = extract_job.ExtractJob(stand_in.catalog, objects, stand_in.grants)(context)["extract"]
    assert statistics["destinationUriFileCounts"] == [str(len(objects.objects))]
    return {
        name: pq.read_table(io.BytesIO(content)).column("v").to_pylist() for name, content in objects.objects.items()
    }


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A table of three segments with two rows each."""
    found = Warehouse(tmp_path)
    inserts = "; ".join(f"INSERT d.t VALUES ({number}), ({number})" for number in range(3))
    found.statistics(f"CREATE SCHEMA d; CREATE TABLE d.t (v INT64); {inserts}")
    return found


def test_table_too_large_for_one_file_needs_a_wildcard(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract_job, "MAXIMUM_FILE_BYTES", 6 * ROW_BYTES)
    assert extracted(warehouse, "gs://b/x") == {"gs://b/x": [0, 0, 1, 1, 2, 2]}
    monkeypatch.setattr(extract_job, "MAXIMUM_FILE_BYTES", 6 * ROW_BYTES - 1)
    with pytest.raises(Invalid, match="too large to be exported to a single file"):
        extracted(warehouse, "gs://b/x")


def test_files_of_a_wildcard_are_numbered(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract_job, "MAXIMUM_SHARD_BYTES", 4 * ROW_BYTES)
    assert extracted(warehouse, "gs://b/x-*.parquet") == {
        "gs://b/x-000000000000.parquet": [0, 0, 1, 1],
        "gs://b/x-000000000001.parquet": [2, 2],
    }


def test_empty_table_is_one_empty_file(warehouse: Warehouse) -> None:
    warehouse.statistics("TRUNCATE TABLE d.t")
    assert extracted(warehouse, "gs://b/x-*") == {"gs://b/x-000000000000": []}
