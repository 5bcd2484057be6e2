"""Is the system whole? Table against an independent computation, and every record of the state against the others."""

from __future__ import annotations

from collections import Counter

from dedup_clone.checks.tables import GENERATION_LABEL
from dedup_clone.publish.status import STATUS_TABLE
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.ledger import LedgerRecord, Outcome
from dedup_clone.state.staging import StagingState
from devstack.demo import independent, published
from devstack.demo.compare import compare
from devstack.demo.follow import publish_run
from devstack.producer.landing import Landed
from soak.stack import SoakStack

GENERATIONS_KEPT = 2


def problems(stack: SoakStack, feed: str, deliveries: list[Landed]) -> list[str]:
    """What is not as it must be once every delivery has been dealt with; empty when all is well."""
    records = stack.ledger(feed)
    live = [r for r in records if r.outcome is Outcome.PUBLISHED]
    return [
        *_table(stack, feed),
        *_runs(stack, feed, deliveries),
        *_accounted(stack, feed, deliveries, live),
        *_history(live),
        *_committed(stack, feed, live),
        *_folders(stack, feed, live),
    ]


def _table(stack: SoakStack, feed: str) -> list[str]:
    result = compare(published.read(stack.connection, feed), independent.expected_table(stack.landing, feed))
    if result.is_equal:
        return []
    return [f"table: {result.too_many} rows too many, {result.too_few} too few: {'; '.join(result.samples)}"]


def _runs(stack: SoakStack, feed: str, deliveries: list[Landed]) -> list[str]:
    expected, found = sorted(publish_run(d) for d in deliveries), stack.run_ids(feed)
    return [] if found == expected else [f"runs: {_difference(found, expected)}"]


def _accounted(stack: SoakStack, feed: str, deliveries: list[Landed], live: list[LedgerRecord]) -> list[str]:
    expected = sorted(f"{d.snapshot_id}-{d.marker_generation}" for d in deliveries)
    applied = Counter(d.name for record in live for d in record.deliveries)
    found = [f"delivery [{name}] was published {count} times" for name, count in applied.items() if count != 1]
    found += [f"delivery [{name}] was never published" for name in expected if name not in applied]
    registered = [d.name for d in stack.arrivals(feed).deliveries()]
    if sorted(registered) != expected:
        found.append(f"arrivals: {_difference(sorted(registered), expected)}")
    return found


def _history(live: list[LedgerRecord]) -> list[str]:
    """Each publish builds on the one before it."""
    found = []
    parent: int | None = None
    for record in sorted(live, key=lambda r: r.generation):
        if record.parent != parent:
            found.append(f"generation {record.generation} builds on {record.parent}, expected {parent}")
        parent = record.generation
    return found


def _committed(stack: SoakStack, feed: str, live: list[LedgerRecord]) -> list[str]:
    """CURRENT, ledger, manifest, target, STAGING and the readers' status table name the same generation."""
    current = stack.current(feed)
    if current.generation is None or not live:
        return [f"CURRENT names generation [{current.generation}], the ledger has {len(live)} publishes"]
    newest = max(live, key=lambda r: r.generation)
    digest = stack.manifests(feed).read(current.generation).digest
    staging = stack.staging(feed)
    target = stack.bigquery.get_table(f"{stack.connection.dataset}.{feed}")
    status_sql = f"SELECT generation FROM {stack.connection.dataset}.{STATUS_TABLE} WHERE feed = '{feed}'"
    status = [row["generation"] for row in stack.bigquery.query_and_wait(status_sql)]
    seen = {
        "lease": (current.intent, None),
        "ledger": (newest.generation, current.generation),
        "manifest": (digest, current.manifest_digest),
        "target": (target.labels.get(GENERATION_LABEL), str(current.generation)),
        "STAGING": (staging and (staging.state, staging.manifest_digest), (StagingState.LOADED, digest)),
        "status table": (status, [current.generation]),
    }
    return [
        f"{name}: found [{found}], expected [{wanted}]" for name, (found, wanted) in seen.items() if found != wanted
    ]


def _folders(stack: SoakStack, feed: str, live: list[LedgerRecord]) -> list[str]:
    kept = sorted(r.attempt for r in sorted(live, key=lambda r: r.generation)[-GENERATIONS_KEPT:])
    found = sorted(f.rstrip("/").rsplit("/", 1)[1] for f in stack.store.folders(FeedLayout(feed).data))
    return [] if found == kept else [f"data folders: {_difference(found, kept)}"]


def _difference(found: list[str], expected: list[str]) -> str:
    more, fewer = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
    return f"too many [{', '.join(more)}], missing [{', '.join(fewer)}]"
