"""Lists what a feed file declares for target besides columns and layout, as entries of `warehouse/table_options.py`."""

from __future__ import annotations

from dedup_clone.settings.table_settings import TableSettings
from dedup_clone.warehouse.table_options import (
    FRIENDLY_NAME,
    KMS_KEY,
    PARTITION_FILTER,
    PRIMARY_KEY,
    description_entry,
    label_entry,
)


def swap_options(table: TableSettings) -> dict[str, str]:
    """The entries that each swap sets on target."""
    options = table.options
    entries = {label_entry(key): value for key, value in options.labels.items()}
    if options.friendly_name:
        entries[FRIENDLY_NAME] = options.friendly_name
    if options.kms_key:
        entries[KMS_KEY] = options.kms_key
    if options.require_partition_filter:
        entries[PARTITION_FILTER] = "true"
    return entries


def staging_options(table: TableSettings) -> dict[str, str]:
    """The entries that are set on staging. Each clone takes them from there."""
    entries = {description_entry(path): text for path, text in table.descriptions().items()}
    if table.primary_key:
        entries[PRIMARY_KEY] = ", ".join(table.keys)
    return entries
