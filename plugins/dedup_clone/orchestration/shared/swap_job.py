"""The BigQuery job configuration of the swap, with SQL of sql/publish. Task `check_staging` returns most parameters."""

from __future__ import annotations

from typing import Any

from dedup_clone.publish.step_specs import SWAP_PARAMETERS


def swap_configuration(feed: str, target: str) -> dict[str, Any]:
    """The configuration, which Airflow renders with the DAG's macros `names` and `options`. `target`: a table name."""
    return {
        "query": {
            "query": "{% include 'publish/swap_target.sql' %}",
            "useLegacySql": False,
            "queryParameters": [
                _parameter("target", "STRING", target),
                *(_parameter(name, kind, _xcom_field(name)) for name, kind in SWAP_PARAMETERS.items()),
            ],
        },
        "labels": {"dedup_clone_feed": feed, "dedup_clone_step": "swap"},
    }


def _xcom_field(name: str) -> str:
    return "{{ " + f"ti.xcom_pull(task_ids='check_staging')['{name}']" + " }}"


def _parameter(name: str, kind: str, value: str) -> dict[str, Any]:
    return {"name": name, "parameterType": {"type": kind}, "parameterValue": {"value": value}}
