"""dbt-bigquery: tables, incremental models, snapshots, tests of data and clones. It has no view, and no seed (CSV)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.cloud import bigquery

from testkit.foreign_programs import Servers, dbt_profile, run_dbt, write_files

pytestmark = pytest.mark.exhaustive

BY_DAY = 'partition_by={"field": "day", "data_type": "date"}'
SOURCE = """
select date '2026-11-20' as day, 1 as id, {{ var("update_id") }} as update_id
{% if var("update_id") == 1 %} union all select date '2026-11-20', 2, 1 {% endif %}
union all select date '2026-11-21', 3, {{ var("update_id") }}
"""
READ = 'select * from {{ ref("snapshot_rows") }}'
FILES = {
    "models/snapshot_rows.sql": f'{{{{ config(materialized="table", {BY_DAY}, cluster_by=["id"]) }}}} {SOURCE}',
    "models/merged.sql": (
        '{{ config(materialized="incremental", incremental_strategy="merge", unique_key=["day", "id"], '
        f"{BY_DAY}) }}}} {READ}"
    ),
    "models/overwritten.sql": (
        f'{{{{ config(materialized="incremental", incremental_strategy="insert_overwrite", {BY_DAY}) }}}} {READ}'
    ),
    "models/overwritten_days.sql": (
        '{{ config(materialized="incremental", incremental_strategy="insert_overwrite", '
        f"partitions=[\"date '2026-11-20'\", \"date '2026-11-21'\"], {BY_DAY}) }}}} {READ}"
    ),
    "models/copied_partitions.sql": (
        '{{ config(materialized="incremental", incremental_strategy="insert_overwrite", partition_by='
        f'{{"field": "day", "data_type": "date", "copy_partitions": true}}) }}}} {READ}'
    ),
    "models/a_view.sql": '{{ config(materialized="view") }} select count(*) as n from {{ ref("snapshot_rows") }}',
    "models/tests.yml": json.dumps(
        {"models": [{"name": "snapshot_rows", "columns": [{"name": "id", "data_tests": ["unique", "not_null"]}]}]}
    ),
    "snapshots/history.sql": (
        '{% snapshot history %} {{ config(target_schema="shop", unique_key="id", strategy="check", '
        f'check_cols=["update_id"]) }}}} {READ} {{% endsnapshot %}}'
    ),
    "seeds/codes.csv": "code,name\n1,one\n",
    "dbt_project.yml": json.dumps({"name": "shop", "version": "1.0", "profile": "shop"}),
}
REFUSED = {
    "a_view": "CREATE OR REPLACE VIEW",
    "codes": "configuration.load.skipLeadingRows",  # CSV
    "copied_partitions": "configuration.copy",
}


def rows(client: bigquery.Client, table: str) -> list[tuple[str, int, int]]:
    read = client.query(f"SELECT day, id, update_id FROM {table} ORDER BY id, update_id").result()
    return [(str(row.day)[-2:], row.id, row.update_id) for row in read]


def test_dbt_builds_twice_and_clones(servers: Servers, client: bigquery.Client, tmp_path: Path) -> None:
    write_files(tmp_path, {**FILES, "profiles.yml": dbt_profile(servers, dev="shop", other="shop_clone")})

    first = run_dbt(servers, tmp_path, "build", "--vars", "{update_id: 1}")
    assert {name for name, (status, _) in first.items() if status not in ("success", "pass")} == {"a_view", "codes"}
    second = run_dbt(servers, tmp_path, "build", "--vars", "{update_id: 2}")
    failed = {name: message for name, (status, message) in second.items() if status not in ("success", "pass")}
    assert failed.keys() == REFUSED.keys()
    assert all(f"does not carry out [{REFUSED[name]}" in message for name, message in failed.items()), failed

    newest = [("20", 1, 2), ("21", 3, 2)]
    assert rows(client, "shop.snapshot_rows") == newest
    assert rows(client, "shop.overwritten") == rows(client, "shop.overwritten_days") == newest
    assert rows(client, "shop.merged") == [("20", 1, 2), ("20", 2, 1), ("21", 3, 2)]
    history = client.query("SELECT id, update_id FROM shop.history WHERE dbt_valid_to IS NULL ORDER BY id").result()
    assert [tuple(row) for row in history] == [(1, 2), (2, 1), (3, 2)]

    (tmp_path / "target").rename(tmp_path / "built")
    assert run_dbt(servers, tmp_path, "clone", "--target", "other", "--state", "built", "--select", "merged",
                   "--vars", "{update_id: 2}")["merged"][0] == "success"  # fmt: skip
    clone = client.get_table("shop_clone.merged")
    assert clone.clone_definition is not None
    assert rows(client, "shop_clone.merged") == rows(client, "shop.merged")
