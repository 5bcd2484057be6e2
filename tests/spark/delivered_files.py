"""Delivers files to the Spark job."""

from __future__ import annotations

from dedup_clone.contract.delivery import Arrival
from dedup_spark import storage
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.deliveries import (
    Files,
)


def deliver(area: SparkJobFeed, version: int, files: Files) -> Arrival:
    for name, content in files.items():
        area.put(version, name, content)
    storage.write_text(area.uri(f"{area.folder(version)}_SUCCESS"), "")
    return area.arrive(version)


NAMES = [
    "with space", "quote'", 'double"quote', "hash#1", "percent%20", "plus+", "question?", "bracket[0]", "brace{a,b}",
    "back\\slash", "Ünïcödé 日本 🚲", "semi;colon", "comma,", "a=b", "amp&", "tilde~", "dollar$x", "pipe|", "<tag>",
    "colon:1",
]  # fmt: skip
