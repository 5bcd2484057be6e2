"""Finds, before the dedup, the differences between feed file and published table that a publish must refuse."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.schema_change import (
    added_columns,
    refused_column_changes,
    refused_table_changes,
    widened_columns,
)
from dedup_clone.contract.table import Column
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.metadata import TableMetadata


def refuse_impossible_changes(services: Services, engine: Engine, parent: Manifest | None) -> None:
    """Raise ConfigurationError if a publish with this engine must refuse what the feed file declares."""
    feed = services.feed
    problems = refusals(services, engine, parent, services.warehouse.table(feed.staging))
    if problems:
        raise ConfigurationError(
            f"Feed [{feed.feed}] changes the live table in a way that this publish cannot make: "
            f"{'; '.join(problems)}. Nothing was changed. If this is not meant, put the former values back. Else see "
            f"docs/feeds.md, change a feed; `make plan FEED={feed.feed}` shows all differences, and whether "
            "dedup_clone_rebuild makes them."
        )


def refusals(services: Services, engine: Engine, parent: Manifest | None, staging: TableMetadata | None) -> list[str]:
    """Why a publish with this engine must refuse what the feed file declares, each with the next step.

    Empty without a parent, or if nothing must be refused. The next step may be an approval or another engine.
    """
    if parent is None:
        return []
    return list(_refusals(services, engine, parent, staging))


def _refusals(services: Services, engine: Engine, parent: Manifest, staging: TableMetadata | None) -> Iterator[str]:
    declared = services.feed.table.to_contract()
    refused = refused_table_changes(parent.table, declared)
    yield from refused
    if not refused:
        yield from _unsupported_changes(engine, parent, declared.columns)
        if staging is not None:
            yield from _changes_of_staging(staging, declared.columns)
    if staging is not None and shortens_retention(declared.retention_days, staging):
        lost = lost_dates(services, parent)
        staging_days = "all" if staging.expiration_days is None else f"{staging.expiration_days:g}"
        yield (
            f"retention_days is [{declared.retention_days}], staging keeps [{staging_days}] days, and readers would "
            f"lose [{len(lost)}] dates with [{sum(lost.values())}] rows: approve that with "
            f"`make plan FEED={services.feed.feed} APPLY=1`"
        )


def _changes_of_staging(staging: TableMetadata, declared: tuple[Column, ...]) -> Iterator[str]:
    """One text if staging, which an earlier run may have changed, cannot get the declared columns."""
    problems = refused_column_changes(staging.columns, declared)
    if problems:
        yield (
            "an earlier run already changed staging to a former version of this feed file, and the present file "
            f"differs ({', '.join(problems)}): declare it again as staging has it"
        )


def _unsupported_changes(engine: Engine, parent: Manifest, declared: tuple[Column, ...]) -> Iterator[str]:
    """One text if there are column changes that only Spark can make, and this engine does not run it."""
    before = parent.table.columns
    nested = [path for path in added_columns(before, declared) if "." in path]
    new = [*nested, *widened_columns(before, declared)]
    if new and not engine.runs_spark:
        yield (
            f"engine [{engine}] cannot widen columns or add nested ones {new}: publish one snapshot with engine "
            f"[{Engine.SPARK}], then go on with engine [{engine}]"
        )


def shortens_retention(retention_days: int, staging: TableMetadata) -> bool:
    """Whether `retention_days` is less than the days for which staging keeps its partitions now."""
    return staging.expiration_days is None or retention_days < staging.expiration_days


def lost_dates(services: Services, parent: Manifest) -> dict[str, int]:
    """The live generation's dates that its own retention keeps, but the feed file's drops: date as text -> its rows."""
    oldest, _ = services.retention_window()
    live_oldest = oldest + timedelta(days=services.feed.table.retention_days - parent.table.retention_days)
    return {str(entry.date): entry.rows for entry in parent.dates if live_oldest <= entry.date < oldest}
