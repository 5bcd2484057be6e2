"""Removes, when the stand-in starts, the files of versions and segments that nobody can read any more."""

from __future__ import annotations

from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import TIME_TRAVEL_US


def clean_up(catalog: Catalog) -> None:
    """Removes old versions, and the segments that no version references. No job may run meanwhile.

    Hidden datasets (of query results) have no time travel.
    """
    now_us = catalog.clock.now_us()
    for table, history in catalog.histories():
        dataset = catalog.datasets.find(table.dataset_id)
        limit_us = now_us if dataset and dataset.hidden else now_us - TIME_TRAVEL_US
        history.remove_before(limit_us)
        latest = history.latest()
        if latest is None or (latest.gone_us is not None and latest.gone_us <= limit_us):
            catalog.forget(table)
    referenced = {
        segment.file
        for _, history in catalog.histories()
        for version in history.versions_since(0)
        for segment in version.all_segments()
    }
    catalog.segments.remove(catalog.segments.files() - referenced)
