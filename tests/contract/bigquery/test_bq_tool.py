"""The command line tool `bq` with the stand-in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from google.cloud import bigquery, storage

from testkit.server_clients import PROJECT
from tests.shared.required_tools import require


def run_bq(folder: Path, url: str, *arguments: str) -> Any:
    """The JSON that the command prints; None for none."""
    environment = {
        **os.environ,
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(folder / "token"),
        "CLOUDSDK_CONFIG": str(folder),
        "HOME": str(folder),
    }
    options = [f"--api={url}", f"--project_id={PROJECT}", "--format=json", "--quiet"]
    command = ["bq", *options, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout.startswith(("[", "{")) else None


def test_tables_are_made_changed_queried_shown_and_removed(
    clients: tuple[storage.Client, bigquery.Client], tmp_path: Path
) -> None:
    require("bq", "https://cloud.google.com/sdk/docs/install")
    (tmp_path / "token").write_text("local\n")
    _, client = clients

    def bq(*arguments: str) -> Any:
        return run_bq(tmp_path, client._connection.API_BASE_URL, *arguments)

    dataset = client.create_dataset("by_bq").dataset_id
    rows = ", ".join(f"(DATE '2026-01-31', {key})" for key in range(3))
    client.query_and_wait(f"CREATE TABLE {dataset}.t (day DATE, id INT64); INSERT {dataset}.t VALUES {rows}")
    name = f"{dataset}.made"
    bq("mk", "-t", "--time_partitioning_field=day", "--clustering_fields=id", name, "day:DATE,id:INTEGER")
    bq("update", "--set_label", "team:data", name)
    shown = bq("show", name)
    assert (shown["labels"], shown["clustering"]["fields"]) == ({"team": "data"}, ["id"])
    bq("rm", "-f", "-t", name)
    assert [item["tableReference"]["tableId"] for item in bq("ls", dataset)] == ["t"]
    sql = f"SELECT COUNT(*) AS n, MAX(day) AS newest FROM {dataset}.t"
    assert bq("query", "--nouse_legacy_sql", sql) == [{"n": "3", "newest": "2026-01-31"}]
    dry = bq("query", "--nouse_legacy_sql", "--dry_run", f"SELECT id FROM {dataset}.t")
    assert dry["statistics"]["totalBytesProcessed"] == "24"
