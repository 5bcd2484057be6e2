"""Restores deleted datasets, as UNDROP SCHEMA does.

Source: https://docs.cloud.google.com/bigquery/docs/restore-deleted-datasets
"""

from __future__ import annotations

from devstack.bigquery.bigquery_errors import NotFound, NotImplementedConstruct
from devstack.bigquery.clock import HOUR_US
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import DatasetId


def restore_dataset(catalog: Catalog, dataset_id: DatasetId, location: str) -> None:
    """Restores the dataset with the tables that it had when it was deleted.

    Raises NotFound if no such dataset was deleted in this location within its time travel window, and
    NotImplementedConstruct if it had procedures.
    """
    deleted = catalog.datasets.find_deleted(dataset_id)
    if deleted is None or deleted.deleted_us is None or deleted.location.lower() != location.lower():
        raise NotFound(f"Not found: no deleted dataset {dataset_id} in location {location}")
    if catalog.clock.now_us() - deleted.deleted_us > deleted.max_time_travel_hours * HOUR_US:
        raise NotFound(f"Not found: dataset {dataset_id} was deleted before its time travel window")
    if deleted.deleted_with_routines:
        raise NotImplementedConstruct("UNDROP SCHEMA of a dataset that had procedures")
    # The tables are restored first: nobody sees them before their dataset exists. If this process is killed in between,
    # the next start of the stand-in drops the tables again.
    for table_id, _ in catalog.histories():
        if table_id.dataset_id == dataset_id:
            catalog.undrop(table_id, deleted.deleted_us)
    catalog.datasets.restore(deleted)
