"""Bootstrap: the rows that target has, because other software maintained it, become a feed's first generation.

After the lease is taken the rows are exported to state, free of charge. The Spark job validates them and writes them
anew. Then they are loaded into staging, compared with the table, and swapped in. Until the swap the table stays as it
is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.table_checks import check_layout, check_table_expiration
from dedup_clone.contract.attempt import Attempt, Duplicates, Kind
from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.operations.takeover import (
    comparison_text,
    duplicates_text,
    observe_table,
    refuse_problems,
    table_problems,
    take_over_export,
)
from dedup_clone.publish.attempt_jobs import COUNT_LIMIT, count_by_date
from dedup_clone.publish.attempts import Form, begin_attempt, write_attempt
from dedup_clone.publish.date_ranges import DATES_NAMED, format_dates
from dedup_clone.publish.declared_form import prepare_staging
from dedup_clone.publish.existing_table import ExistingTable, save_existing_table
from dedup_clone.publish.publish_costs import price_text, size_text
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.resolve import waiting_names
from dedup_clone.publish.services import Services

DUPLICATES_SQL_FILE = "bootstrap/duplicates.sql"


@dataclass(frozen=True, kw_only=True)
class BootstrapRequest(Form):
    """The form of a bootstrap run. `duplicates`: what is done about duplicate keys."""

    duplicates: Duplicates


def preview(services: Services, request: BootstrapRequest) -> tuple[str, str]:
    """Target's version, and as Markdown what the bootstrap would do.

    Raises BootstrapRefused if target does not fit the feed, or has duplicates that the form does not resolve.
    """
    services.current.read_for(services.environment)
    existing = _read_existing_table(services)
    counted, surplus_rows = _count_duplicates(services, existing)
    if surplus_rows and request.duplicates is Duplicates.REFUSE:
        raise BootstrapRefused(
            f"Table [{existing.table}] has {counted}. Nothing was changed. List them with the query in "
            f"docs/feeds.md and remove them, or say with [duplicates] how they are resolved."
        )
    names, feed, days = services.names, services.feed, list(existing.partitions)
    compared = comparison_text(services, days)
    lines = [
        f"**{feed.feed}: takes over {existing.table}**",
        "",
        f"- {existing.rows} rows in {len(days)} dates, {days[0]} to {days[-1]}. It serves readers until it is replaced "
        f"by a clone of {names.staging_table}.",
        f"- **Left out**, because the retention is {feed.table.retention_days} days: {_expired_text(existing)}.",
        f"- Duplicates: {counted}. The Spark job reads every key, which scans nothing in BigQuery.",
        f"- {duplicates_text(services, request.duplicates)}",
        f"- Exported to state, written anew by Spark and loaded into {names.staging_table}: at most "
        f"{size_text(existing.size)}. Export and load are free.",
        f"- Comparison with staging, of all columns: {compared}.",
        f"- Update ids stay as they are. The next delivery changes no row whose update id is higher than its own. "
        f"Waiting now: {waiting_names(services, None)}.",
        "- Nobody may write the table from now on until the swap: a change ends the run, and target stays as it is.",
    ]
    return existing.version, "\n".join(lines)


def prepare(services: Services, request: BootstrapRequest, version_shown: str) -> Attempt:
    """Recover a dead run, read the table again, acquire the lease, write the attempt and which table it takes over.

    Raises BootstrapRefused when the table cannot be bootstrapped, or has another version than the preview showed.
    """
    recover(services, request)
    existing = _read_existing_table(services)
    if existing.version != version_shown:
        raise BootstrapRefused(
            f"Table [{existing.table}] was changed since it was shown, and not by the bootstrap. Stop whatever writes "
            f"it, then trigger the bootstrap again."
        )
    left_out = f", without {_expired_text(existing)}" if existing.expired else ""
    reason = f"takes over [{existing.table}]{left_out}, duplicates [{request.duplicates}]: {request.reason}"
    attempt = take_over_export(begin_attempt(services, request, Kind.BOOTSTRAP, None), request.duplicates, None)
    attempt = replace(attempt, reason=reason, retention_day=existing.oldest)
    write_attempt(services, attempt, f"{reason}, {existing.rows} rows in {len(existing.partitions)} dates")
    prepare_staging(services)
    save_existing_table(services, attempt.id, existing)
    return attempt


def _read_existing_table(services: Services) -> ExistingTable:
    """Read target's metadata. One metadata query.

    The error, if it cannot be bootstrapped, names all problems of feed and metadata; else those of the partitions.
    """
    name, table = services.feed.target, services.warehouse.table(services.feed.target)
    if table is None:
        raise BootstrapRefused(
            f"Table [{name}] does not exist. To take over a table of another name, copy it first: bq cp -n "
            f"DATASET.TABLE {services.names.dataset}.{name}, free of charge (docs/feeds.md, take over an existing "
            f"table). Without such a table, land the first snapshot, which creates [{name}]."
        )
    refuse_problems(name, [*_feed_problems(services), *table_problems(services, table)])
    return observe_table(services, name)


def _feed_problems(services: Services) -> Iterator[str]:
    """Problems of the feed: it has published before, or its staging table is in the way."""
    feed, generation = services.feed, services.current.read().generation
    if generation is not None:
        yield (
            f"feed [{feed.feed}] publishes already (generation [{generation}]): a bootstrap is the first publish of a "
            f"feed; take the table over as a feed of another name"
        )
    staging = services.warehouse.table(feed.staging)
    if staging is not None:
        for result in (check_layout(staging, None, feed.table.to_contract()), check_table_expiration([staging])):
            if result.level is Level.FAIL:
                yield (
                    f"[{feed.staging}] exists, and would not be published ({result.found}; expected "
                    f"{result.expected}): drop it, and the bootstrap creates it"
                )


def _expired_text(existing: ExistingTable) -> str:
    if not existing.expired:
        return "none"
    rows, dates = sum(existing.expired.values()), existing.expired
    return f"[{rows}] rows in [{len(dates)}] dates before [{existing.oldest}] ({format_dates(dates)})"


def _count_duplicates(services: Services, existing: ExistingTable) -> tuple[str, int]:
    """The surplus rows of equal keys, as text with the price of the query, and their number; 0 if it reads too much."""
    table = services.feed.table.to_contract()
    sql = services.warehouse.render(DUPLICATES_SQL_FILE, names=services.names, table=table)
    found, size = count_by_date(services, sql, {"retention_day": ("DATE", existing.oldest.isoformat())})
    if found is None:
        return f"not counted, because the query would read {size_text(size)}, more than {size_text(COUNT_LIMIT)}", 0
    count = sum(found.values())
    named = ", ".join(f"{day}: {rows}" for day, rows in list(found.items())[:DATES_NAMED])
    more = f", and {len(found) - DATES_NAMED} more dates" if len(found) > DATES_NAMED else ""
    rows = f"[{count}] surplus rows of keys that occur more than once ({named}{more})" if count else "no key twice"
    return f"{rows}; the query for that read {price_text(size)}", count
