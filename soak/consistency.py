"""Checks a feed between two publishes: its target, its publish runs, and its records in the state bucket."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from google.api_core.exceptions import NotFound

from dedup_clone.checks.table_checks import GENERATION_LABEL
from dedup_clone.publish.records.status_table import STATUS_TABLE
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import LedgerRecord, Outcome
from dedup_clone.state.staging import StagingState
from devstack.demo import expected_table
from devstack.demo.delivery_progress import publish_run_id
from devstack.demo.table_comparison import compare, read_target
from devstack.producer.landing import Landed
from testkit.proxied_stack import ProxiedStack

RETAINED_GENERATIONS = 2  # a publish does not prune the data of the newest two
STATUS_TIMEOUT_S = 400  # the watchdog, which writes what a publish could not, runs every five minutes


def find_problems(stack: ProxiedStack, feed: str, deliveries: list[Landed]) -> list[str]:
    """Everything that is wrong with the feed, as sentences. `deliveries`: all that landed, which must be published.

    Waits up to STATUS_TIMEOUT_S until the status table names the live generation.
    """
    return [*_check_runs(stack, feed, deliveries), *find_record_problems(stack, feed, deliveries)]


def find_record_problems(stack: ProxiedStack, feed: str, deliveries: list[Landed]) -> list[str]:
    """What find_problems returns, without the problems of publish runs.

    Use it for a feed that another environment has also published: the stack's Airflow has no runs of those publishes.
    """
    published_records = [r for r in stack.ledger(feed) if r.outcome is Outcome.PUBLISHED]
    return [
        *_check_rows(stack, feed),
        *_check_deliveries(stack, feed, deliveries, published_records),
        *_check_parents(published_records),
        *_check_generation(stack, feed, published_records),
        *_check_data_folders(stack, feed, published_records),
    ]


def _check_rows(stack: ProxiedStack, feed: str) -> list[str]:
    """Target must have the rows that an independent computation from the landed files gives."""
    result = compare(read_target(stack.connection, feed), expected_table.expected_table(stack.landing, feed))
    if result.is_equal:
        return []
    return [f"table: {result.too_many} rows too many, {result.too_few} too few: {'; '.join(result.samples)}"]


def _check_runs(stack: ProxiedStack, feed: str, deliveries: list[Landed]) -> list[str]:
    """There must be one publish run for each delivery. Only a failed run may be repeated, as `RUN__N`."""
    runs = stack.run_ids(feed)
    repeats = {repeat: run for run in runs for repeat in runs if repeat.removeprefix(run).startswith("__")}
    expected, found = sorted(publish_run_id(d) for d in deliveries), [run for run in runs if run not in repeats]
    problems = [] if found == expected else [f"runs: {_describe_difference(found, expected)}"]
    for repeat, run in repeats.items():
        state = stack.run_state(feed, run)
        problems += [] if state == "failed" else [f"run [{repeat}] repeats [{run}], which is [{state}]"]
    return problems


def _check_deliveries(
    stack: ProxiedStack, feed: str, deliveries: list[Landed], records: list[LedgerRecord]
) -> list[str]:
    """Each delivery must have been registered, and published exactly once."""
    expected = sorted(f"{d.snapshot_id}-{d.marker_generation}" for d in deliveries)
    publish_counts = Counter(d.name for record in records for d in record.deliveries)
    problems = [
        f"delivery [{name}] was published {count} times" for name, count in publish_counts.items() if count != 1
    ]
    problems += [f"delivery [{name}] was never published" for name in expected if name not in publish_counts]
    registered = [d.name for d in stack.arrivals(feed).deliveries()]
    if sorted(registered) != expected:
        problems.append(f"arrivals: {_describe_difference(sorted(registered), expected)}")
    return problems


def _check_parents(records: list[LedgerRecord]) -> list[str]:
    """The parent of each generation must be the generation before it."""
    problems = []
    parent: int | None = None
    for record in sorted(records, key=lambda r: r.generation):
        if record.parent != parent:
            problems.append(f"generation {record.generation} builds on {record.parent}, expected {parent}")
        parent = record.generation
    return problems


def _check_generation(stack: ProxiedStack, feed: str, records: list[LedgerRecord]) -> list[str]:
    """CURRENT, ledger, manifest, target, STAGING and the readers' status table must name the same generation.

    No run may hold the lease.
    """
    current = stack.current(feed)
    if current.generation is None or not records:
        return [f"CURRENT names generation [{current.generation}], the ledger has {len(records)} publishes"]
    newest = max(records, key=lambda r: r.generation)
    digest = stack.manifests(feed).read(current.generation).digest
    staging = stack.staging(feed)
    target = stack.bigquery.get_table(f"{stack.connection.dataset}.{feed}")
    status = _wait_for_status(stack, feed, expected=[current.generation])
    values = {
        "lease": (current.intent, None),
        "ledger": (newest.generation, current.generation),
        "manifest": (digest, current.manifest_digest),
        "target": (target.labels.get(GENERATION_LABEL), str(current.generation)),
        "STAGING": (staging and (staging.state, staging.manifest_digest), (StagingState.LOADED, digest)),
        "status table": (status, [current.generation]),
    }
    return [
        f"{name}: found [{found}], expected [{expected}]"
        for name, (found, expected) in values.items()
        if found != expected
    ]


def _wait_for_status(stack: ProxiedStack, feed: str, expected: list[int]) -> list[int]:
    """Wait until the status table has the expected generations of the feed. Returns those that it has in the end."""
    sql = f"SELECT generation FROM {stack.connection.dataset}.{STATUS_TABLE} WHERE feed = '{feed}'"
    deadline = time.monotonic() + STATUS_TIMEOUT_S
    while True:
        found = [row["generation"] for row in query_rows(stack, sql)]
        if found == expected or time.monotonic() > deadline:
            return found
        time.sleep(1)


def query_rows(stack: ProxiedStack, sql: str) -> list[Any]:
    """The rows of a query; none if its table does not exist."""
    try:
        return list(stack.bigquery.query_and_wait(sql))
    except NotFound:
        return []


def _check_data_folders(stack: ProxiedStack, feed: str, records: list[LedgerRecord]) -> list[str]:
    """The newest two generations must have data folders, and no other attempt may have one."""
    newest = sorted(records, key=lambda r: r.generation)[-RETAINED_GENERATIONS:]
    expected = sorted(r.attempt for r in newest)
    found = sorted(f.rstrip("/").rsplit("/", 1)[1] for f in stack.store.folders(FeedLayout(feed).data))
    return [] if found == expected else [f"data folders: {_describe_difference(found, expected)}"]


def _describe_difference(found: list[str], expected: list[str]) -> str:
    surplus, missing = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
    return f"too many [{', '.join(surplus)}], missing [{', '.join(missing)}]"
