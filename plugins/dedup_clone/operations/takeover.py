"""Takes over a table's rows as a new generation: what bootstrap and rebuild share before the dedup job.

The table's metadata is read and compared with the feed. Then its rows are exported to files in state, free of charge.
The exported files are the only delivery of the attempt: the dedup job validates them and writes them anew
like landed files, except that each row keeps the update id that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.partition_checks import partition_day
from dedup_clone.checks.table_checks import (
    check_layout,
    check_materialized_views,
    check_streaming_buffer,
    check_table_expiration,
    check_target_is_parent,
    check_undeclared_options,
)
from dedup_clone.contract.attempt import Attempt, Duplicates, Plan
from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.contract.table import Column, ColumnMode, PartitionBy, float64_columns
from dedup_clone.publish.attempt_jobs import table_reference
from dedup_clone.publish.date_ranges import format_dates
from dedup_clone.publish.declared_form import staging_options, swap_options
from dedup_clone.publish.existing_table import ExistingTable, dates_to_compare, read_existing_table, require_unchanged
from dedup_clone.publish.parent_generation import export_folder, export_partitions, wrong_row_counts
from dedup_clone.publish.partition_comparison import comparison_bytes
from dedup_clone.publish.publish_costs import price_text
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.metadata import Observation, TableMetadata
from dedup_clone.warehouse.table_options import POLICY_TAG, policy_tags

# The delivery of the exported files. Its snapshot id is above every update id that a row may have, so that no row
# counts as newer than its delivery.
EXPORT_DELIVERY = Delivery(snapshot_id=2**63 - 2, marker_generation=1)


def observe_table(services: Services, name: str) -> ExistingTable:
    """Read the partitions of a table whose columns fit the feed. One metadata query.

    Raises BootstrapRefused if a row has no date, a date for which BigQuery has no partition, or a date after tomorrow,
    and if no row is within the retention.
    """
    observation = services.warehouse.observe(services.names, name)
    oldest, latest = services.retention_window()
    refuse_problems(name, partition_problems(services, observation, latest))
    rows = dict(sorted((day, p.rows) for p in observation.partitions if (day := partition_day(p)) and p.rows))
    existing = ExistingTable(
        table=name,
        version=observation.table.version,
        size=observation.table.size,
        oldest=oldest,
        partitions={day: count for day, count in rows.items() if day >= oldest},
        expired={day: count for day, count in rows.items() if day < oldest},
    )
    if not existing.partitions:
        raise BootstrapRefused(
            f"Table [{name}] has no row since [{oldest}], the oldest date that feed [{services.feed.feed}] keeps: "
            f"land the first snapshot instead (and drop the table, if it is target)."
        )
    return existing


def refuse_problems(name: str, problems: Sequence[str]) -> None:
    """Raise BootstrapRefused if there are problems."""
    if problems:
        raise BootstrapRefused(
            f"Table [{name}] cannot be taken over; nothing was changed:\n  - " + "\n  - ".join(problems)
        )


def table_problems(services: Services, target: TableMetadata) -> list[str]:
    """What prevents a bootstrap: kind, location, layout, columns, and what would be lost by replacing target."""
    if target.kind != "TABLE":
        return [f"it is a [{target.kind}], expected a table: put a table with its rows in its place"]
    columns = services.feed.table.to_contract().columns
    return [
        *_layout_problems(services, target),
        *_column_problems(target, columns),
        *_replacement_problems(services, target),
        *_not_taken_over(services, target),
    ]


def _layout_problems(services: Services, table: TableMetadata) -> Iterator[str]:
    location, layout = services.warehouse.location, check_layout(table, None, services.feed.table.to_contract())
    if table.location.lower() != location.lower():
        yield f"it lies in [{table.location}], expected [{location}]: copy its dataset there"
    if (unit := services.feed.table.partition_by) is not PartitionBy.DAY:
        yield f"the feed is partitioned by {unit}, and a takeover exports single days: publish its snapshots instead"
    elif layout.level is Level.FAIL:
        yield (
            f"{layout.evidence}, because BigQuery cannot replace a table by one of another layout: put the table's "
            f"clustering into the feed's file, or a table of that layout with its rows in its place"
        )


def _column_problems(table: TableMetadata, columns: Sequence[Column]) -> Iterator[str]:
    existing, declared = ({column.name: _type(column) for column in side} for side in (table.columns, columns))
    for name in dict.fromkeys([*declared, *existing]):
        found, expected = existing.get(name), declared.get(name)
        if expected is None:
            yield f"column [{name}] is not in the feed's file: drop it, or declare it"
        elif found != expected:
            yield f"column [{name}] is {found or 'missing'}, expected {expected}"
    if floats := float64_columns(table.columns):
        yield (
            f"an export of it, which the bootstrap needs, loses digits of FLOAT64 columns [{', '.join(floats)}]: let "
            f"the feed begin with a complete snapshot; if this table is target, rename it first"
        )


def _type(column: Column) -> str:
    """The type without NULLABLE or REQUIRED: the rows show whether a column has NULLs."""
    inner = f"STRUCT<{', '.join(f'{f.name} {_type(f)}' for f in column.fields)}>" if column.fields else column.type
    return f"ARRAY<{inner}>" if column.mode is ColumnMode.REPEATED else inner


def _replacement_problems(services: Services, target: TableMetadata) -> Iterator[str]:
    """The checks of a swap that target fails."""
    results = (
        check_target_is_parent(target, None, None, target.version),
        check_table_expiration([target]),
        check_streaming_buffer([target], services.now()),
        check_materialized_views(services.warehouse.materialized_views_of(target.name)),
    )
    yield from (f"{result.evidence}: {result.next_step}" for result in results if result.level is Level.FAIL)


def _not_taken_over(services: Services, target: TableMetadata) -> Iterator[str]:
    """Policies, tags and options of target that its replacement would lack, each with what to do.

    The feed file cannot declare tags of nested columns: such a tag is named if staging lacks it. Metadata calls, free
    of charge.
    """
    from google.api_core.exceptions import Forbidden

    declared, staging = services.feed.table.policies, services.warehouse.table(services.feed.staging)
    on_staging = staging.options if staging else {}
    how = "and make them on staging (docs/deploy.md, Row access policies and policy tags)"
    hidden = f"Readers of target would see the rows that they hide. Declare them in table.policies.row_access {how}"
    try:
        found = services.warehouse.policies(target.name).row_access
        policies = sorted({*found} - {*declared.row_access})
        if policies:
            yield f"Not taken over: row access policies [{', '.join(policies)}]. {hidden}"
    except Forbidden as error:
        yield (
            f"Not known: whether [{target.name}] has row access policies. {hidden}, or let the account of "
            f"Airflow list them. BigQuery says: {error.message}"
        )
    tags = ", ".join(
        f"{path}: {tag}"
        for path, tag in policy_tags(target.options).items()
        if (policy_tags(on_staging) if "." in path else declared.column_tags).get(path) != tag
    )
    if tags:
        yield (
            f"Not taken over: policy tags of columns [{tags}]. Readers of target would see these columns. Declare "
            f"them in table.policies.column_tags (nested columns cannot be declared there) {how}"
        )
    options = check_undeclared_options(
        target={name: value for name, value in target.options.items() if not name.startswith(POLICY_TAG)},
        staging=on_staging,
        declared={**swap_options(services.feed.table), **staging_options(services.feed.table)},
        last_set={},
    )
    if options.level is Level.FAIL:
        yield f"Not taken over: {options.found}. To have it on target: {options.next_step}"


def partition_problems(services: Services, observation: Observation, latest: date) -> list[str]:
    """Problems of the rows' dates: rows without a date, and rows with a date after `latest`."""
    column, problems = services.feed.table.partition_column, []
    special = [p for p in observation.partitions if partition_day(p) is None and p.rows]
    if special:
        problems.append(
            f"column [{column}]: {sum(p.rows for p in special)} rows are [NULL], before 1960, after 2159, or not in "
            f"their partition yet ({', '.join(p.partition_id for p in special)}), expected a date that has a partition "
            f"in every row: delete or correct them"
        )
    future = [p for p in observation.partitions if (day := partition_day(p)) and day > latest and p.rows]
    if future:
        problems.append(
            f"column [{column}]: {sum(p.rows for p in future)} rows have dates after [{latest}], up to "
            f"[{max(p.partition_id for p in future)}]: delete or correct them"
        )
    return problems


def comparison_text(services: Services, days: list[date]) -> str:
    """What a preview says of the comparison of target's rows with staging."""
    compared = dates_to_compare(days)
    size = comparison_bytes(services, services.feed.table.to_contract(), compared)
    return f"{len(compared)} dates ({format_dates(compared)}), by one query each, together about {price_text(size)}"


def duplicates_text(services: Services, duplicates: Duplicates) -> str:
    """What a preview says of rows with the same key."""
    if duplicates is Duplicates.REFUSE:
        return "If rows have the same key, the run ends, and the error names the key."
    return (
        f"**Rows may be dropped**: of rows with the same key only the one of the highest "
        f"{services.feed.table.snapshot_id_column} stays. `ties` in the ledger record counts the others."
    )


def take_over_export(attempt: Attempt, duplicates: Duplicates, rebuilt: Manifest | None) -> Attempt:
    """The attempt with the export as its only delivery. `rebuilt`: the live generation; None in a bootstrap."""
    entries = rebuilt.dates if rebuilt else ()
    return replace(
        attempt,
        plan=Plan.REWRITE,
        date_folders=True,
        deliveries=(EXPORT_DELIVERY,),
        arrivals_uri=attempt.folder_uri,
        folded=rebuilt.deliveries if rebuilt else (),
        excluded=rebuilt.excluded if rebuilt else (),
        takes_over=duplicates,
        newest_snapshots={e.date: e.newest_snapshot for e in entries if e.newest_snapshot is not None},
    )


def export(services: Services, request: object, attempt: Attempt) -> None:
    """Export the table whose rows the attempt takes over, and write the inventory. Safe to repeat.

    Raises BootstrapRefused when the table was changed or exported with other row counts, LostRace without the lease,
    and what `read_existing_table` and `export_partitions` raise.
    """
    existing = read_existing_table(services, attempt.id)
    services.current.require_intent(attempt.id)
    folder = export_folder(services, attempt.id)
    require_unchanged(services, existing)
    services.log(
        f"exports {len(existing.partitions)} dates of [{existing.table}] to [{services.store.uri(folder)}]",
        generation=attempt.generation,
    )
    table, rows = table_reference(services, existing.table), existing.partitions
    exported = export_partitions(services, attempt, table, rows)
    files = [file for file in exported if file.date in rows]
    for info in (file.info for file in exported if file.date not in rows):  # exported by a try before midnight
        services.store.delete(info.name, expected_object_generation=info.object_generation)
    require_unchanged(services, existing)
    wrong = wrong_row_counts(files, rows)
    if wrong:
        raise BootstrapRefused(
            f"The export of table [{existing.table}] has other row counts than the table: {'; '.join(wrong[:5])}. "
            f"Target was not changed. If row access policies hide rows from the account that exports, grant that "
            f"account all rows. Then clear the run from its first task, which exports the table anew."
        )
    services.current.require_intent(attempt.id)
    arrival = Arrival(
        feed=services.feed.feed,
        delivery=EXPORT_DELIVERY,
        bucket=services.store.bucket,
        folder=folder,
        marker=f"{folder}_SUCCESS",
        arrived_at=attempt.taken_at,
        objects=tuple(LandedObject(o.name, o.object_generation, o.crc32c, o.size) for o in (f.info for f in files)),
        late_objects=(),
    )
    # Outside `arrivals/`, so that no publish takes the files for a landed delivery.
    name = f"{services.layout.attempt_folder(attempt.id)}{EXPORT_DELIVERY.name}.json"
    services.store.put(name, to_json(arrival))


def after_commit(services: Services, request: object, attempt: Attempt) -> int:
    """Delete copied rows and exported files, which nothing reads any more; return how many files. Safe to repeat."""
    services.warehouse.alterations.drop(services.names.of_attempt(attempt.id).incoming_table)
    return services.store.delete_prefix(export_folder(services, attempt.id))
