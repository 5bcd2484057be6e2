"""The swap as a job configuration: SQL from sql/publish, values as query parameters from the check's XCom."""

from __future__ import annotations

from typing import Any

SWAP_ORDER = "ti.xcom_pull(task_ids='check_staging')"


def swap_configuration(feed: str, target: str) -> dict[str, Any]:
    """Rendered by Airflow; `names` (validated identifiers) is one of the DAG's macros."""
    return {
        "query": {
            "query": "{% include 'publish/swap_target.sql' %}",
            "useLegacySql": False,
            "queryParameters": [
                _parameter("target", "STRING", target),
                _parameter("parent", "STRING", _field("parent")),
                _parameter("generation", "STRING", _field("generation")),
                _parameter("checked_at", "TIMESTAMP", _field("checked_at")),
                _parameter("snapshot", "STRING", _field("snapshot")),
                _parameter("manifest", "STRING", _field("manifest")),
                _parameter("description", "STRING", _field("description")),
                _parameter("expiration_days", "FLOAT64", _field("expiration_days")),
            ],
        },
        "labels": {"dedup_clone_feed": feed, "dedup_clone_step": "swap"},
    }


def _field(name: str) -> str:
    return "{{ " + f"{SWAP_ORDER}['{name}']" + " }}"


def _parameter(name: str, kind: str, value: str) -> dict[str, Any]:
    return {"name": name, "parameterType": {"type": kind}, "parameterValue": {"value": value}}
