"""Compares the feed file's columns with those of the live generation, before anything is deduplicated."""

from __future__ import annotations

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.schema_change import added_columns, refused_changes
from dedup_clone.publish.services import Services


def require_possible_change(services: Services, engine: Engine, parent: Manifest | None) -> None:
    """Raise ConfigurationError if a publish cannot give the table the columns of the feed file."""
    feed, declared = services.feed, services.feed.table.to_contract().columns
    if parent is None:
        return
    problems = refused_changes(parent.table.columns, declared)
    if problems:
        raise ConfigurationError(
            f"Feed [{feed.feed}] changes columns of the live table in a way that no publish can make: "
            f"{'; '.join(problems)}. Nothing was changed. Undo the change in the feed file, or publish the changed "
            f"table as a feed of its own (docs/change-a-feed.md)."
        )
    added = added_columns(parent.table.columns, declared)
    if added and engine is not Engine.SPARK:
        raise ConfigurationError(
            f"Feed [{feed.feed}] has new columns {added}, which engine [{engine}] cannot add: it reads target, which "
            f"lacks them. Publish one snapshot with engine [{Engine.SPARK}], then go on with engine [{engine}]."
        )
