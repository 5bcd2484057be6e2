"""Erases keys from a feed of the Spark job, and writes the record that later publishes get."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dedup_clone.contract.erasure import Erasure, Tombstones
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import to_json
from dedup_spark import storage
from testkit.spark_job_feed import FEED, SparkJobFeed


def run_erasure(area: SparkJobFeed, text: str, *earlier: str) -> Candidate:
    uri = storage.join(area.state, "keys.csv")
    storage.write_text(uri, text)
    return area.run(replace(area.attempt([]), erases=uri, erasures=earlier))


def erase(area: SparkJobFeed, text: str, *earlier: str, **changes: Any) -> str:
    """Erase the keys of a CSV file, commit, and return the URI of the record."""
    candidate = run_erasure(area, text, *earlier)
    area.commit(candidate)
    assert candidate.erased
    assert candidate.erased.tombstones
    return record(area, replace(candidate.erased.tombstones, **changes))


def record(area: SparkJobFeed, tombstones: Tombstones) -> str:
    assert area.manifest
    generation = area.manifest.generation
    text = to_json(Erasure(FEED, generation, "a", "run", "asked", datetime(2026, 3, 3, tzinfo=UTC), {}, tombstones))
    uri = storage.join(area.state, f"erasures/{generation}.json")
    storage.write_text(uri, text)
    return uri
