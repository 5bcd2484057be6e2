"""dbt-bigquery: seeds, tables, incremental models, snapshots, tests of data and clones, without views."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from google.cloud import bigquery

from testkit.foreign_programs import BIN, PROJECT, Servers, dbt_profile, run_dbt, run_program, write_files

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
    "copied_partitions": "configuration.copy",
}


def rows(client: bigquery.Client, table: str) -> list[tuple[str, int, int]]:
    read = client.query(f"SELECT day, id, update_id FROM {table} ORDER BY id, update_id").result()
    return [(str(row.day)[-2:], row.id, row.update_id) for row in read]


def test_dbt_builds_twice_and_clones(servers: Servers, client: bigquery.Client, tmp_path: Path) -> None:
    write_files(tmp_path, {**FILES, "profiles.yml": dbt_profile(servers, dev="shop", other="shop_clone")})

    first = run_dbt(servers, tmp_path, "build", "--vars", "{update_id: 1}")
    assert {name for name, (status, _) in first.items() if status not in ("success", "pass")} == {"a_view"}
    second = run_dbt(servers, tmp_path, "build", "--vars", "{update_id: 2}")
    failed = {name: message for name, (status, message) in second.items() if status not in ("success", "pass")}
    assert failed.keys() == REFUSED.keys()
    assert all(f"does not carry out [{REFUSED[name]}" in message for name, message in failed.items()), failed

    newest = [("20", 1, 2), ("21", 3, 2)]
    assert rows(client, "shop.snapshot_rows") == newest
    assert rows(client, "shop.overwritten") == rows(client, "shop.overwritten_days") == newest
    assert rows(client, "shop.merged") == [("20", 1, 2), ("20", 2, 1), ("21", 3, 2)]
    assert [tuple(row) for row in client.query("SELECT code, name FROM shop.codes").result()] == [(1, "one")]
    history = client.query("SELECT id, update_id FROM shop.history WHERE dbt_valid_to IS NULL ORDER BY id").result()
    assert [tuple(row) for row in history] == [(1, 2), (2, 1), (3, 2)]

    (tmp_path / "target").rename(tmp_path / "built")
    assert run_dbt(servers, tmp_path, "clone", "--target", "other", "--state", "built", "--select", "merged",
                   "--vars", "{update_id: 2}")["merged"][0] == "success"  # fmt: skip
    assert "cloneDefinition" in client.get_table("shop_clone.merged").to_api_repr()
    assert rows(client, "shop_clone.merged") == rows(client, "shop.merged")


# Of dbt's own tests of adapters. Most of those that are missing here make a view.
PASSING_ADAPTER_TESTS = {
    "TestAfterRunHooks": {"test_missing_column_pre_hook"},
    "TestEmpty": {"test_empty"},
    "TestIncrementalNotSchemaChange": {"test_incremental_not_schema_change"},
    "TestIncrementalOnSchemaChange": {
        "test_run_incremental_ignore",
        "test_run_incremental_append_new_columns",
        "test_run_incremental_fail_on_schema_change",
    },
    "TestMergeExcludeColumns": {"test__merge_exclude_columns"},
    "TestSingularTests": {"test_singular_tests"},
    "TestTableMaterialization": {"test_table_materialization_sort_dist_no_op"},
    "TestValidateConnection": {"test_validate_connection"},
}
REFUSED_TO_ADAPTER_TESTS = {
    "ALTER TABLE DROP COLUMN",
    "CREATE OR REPLACE VIEW",
    "function JSON_VALUE",
    "",  # ADDED_TO_DATETIME
}
# TIMESTAMP_ADD of a DATETIME, of which no page says what it is.
ADDED_TO_DATETIME = r"Query column of type \[TIMESTAMP\] cannot be inserted into column \[some_date\]"


def test_dbts_own_tests_of_adapters(servers: Servers, tmp_path: Path) -> None:
    """Those that fail do so because of something that the stand-in refuses in words."""
    suite = Path(__file__).with_name("adapter_tests.py")
    options = ("-q", "-rp", "--noconftest", "-p", "dbt.tests.fixtures.project", "-p", "no:cacheprovider")
    done = run_program(
        servers, tmp_path, str(BIN / "python"), "-m", "pytest", *options, "-c", os.devnull, "--rootdir", str(tmp_path),
        str(suite), DBT_SEND_ANONYMOUS_USAGE_STATS="0", GOOGLE_CLOUD_PROJECT=PROJECT,
    )  # fmt: skip
    passed: dict[str, set[str]] = {}
    for kind, name in re.findall(r"^PASSED \S*::(Test\w+)::(\w+)", done.stdout, re.MULTILINE):
        passed.setdefault(kind, set()).add(name)
    assert passed == PASSING_ADAPTER_TESTS, done.stdout[-3000:] + done.stderr[-3000:]
    failures = re.split(r"^_{3,} (Test\w+\.\w+) _{3,}$", done.stdout, flags=re.MULTILINE)
    refused = [set(re.findall(r"does not carry out \[([^]]*)\]|" + ADDED_TO_DATETIME, text)) for text in failures[2::2]]
    assert all(refused), [name for name, found in zip(failures[1::2], refused, strict=True) if not found]
    assert set().union(*refused) == REFUSED_TO_ADAPTER_TESTS
