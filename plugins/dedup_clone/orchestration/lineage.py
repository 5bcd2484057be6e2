"""What a task read and wrote, for OpenLineage: the feed's folders in landing and state, and its tables.

Airflow's OpenLineage provider calls the operators' method `get_openlineage_facets_on_complete`. The provider need not
be installed: only `operator_lineage`, which that method calls, imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.state.layout import FeedLayout


@dataclass(frozen=True)
class LineageDataset:
    """A dataset as OpenLineage names it: https://openlineage.io/docs/spec/naming."""

    namespace: str
    name: str


def landing_dataset(setup: FeedSetup) -> LineageDataset:
    return LineageDataset(f"gs://{setup.deployment.landing_bucket}", setup.feed.landing.prefix)


def state_dataset(setup: FeedSetup) -> LineageDataset:
    """The files of all generations."""
    return LineageDataset(f"gs://{setup.deployment.state_bucket}", FeedLayout(setup.feed.feed).data.rstrip("/"))


def table_dataset(setup: FeedSetup, table: str) -> LineageDataset:
    return LineageDataset("bigquery", f"{setup.names.project}.{setup.names.dataset}.{table}")


def operator_lineage(inputs: list[LineageDataset], outputs: list[LineageDataset]) -> Any:
    """The provider's OperatorLineage. Like the provider, it names no dataset as input that is an output."""
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    sources = [each for each in inputs if each not in outputs]
    return OperatorLineage(
        inputs=[Dataset(namespace=each.namespace, name=each.name) for each in sources],
        outputs=[Dataset(namespace=each.namespace, name=each.name) for each in outputs],
    )
