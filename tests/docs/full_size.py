"""The model of a publish of 15 TB, whose numbers the documents use."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.full_size_model import Assumptions, FullSize, measured_per_row
from benchmarks.full_size_report import prices, report
from benchmarks.results import load
from dedup_clone.orchestration.runners.sizing import RunSize, size_run
from dedup_clone.orchestration.runners.workload import Method
from dedup_clone.settings.spark_settings import Runner, SparkSize

_RESULTS = [results for name in ("main", "growth", "memory") if (results := load(name))]
MAIN, GROWTH, MEMORY = _RESULTS
MODEL = FullSize(Assumptions(), measured_per_row(MAIN))
PRICES = prices(MAIN)
REPORT = report(MAIN, GROWTH, MEMORY)


def of_size(table_bytes: float) -> FullSize:
    return FullSize(replace(MODEL.assumed, table_bytes=table_bytes), MODEL.measured)


def size_of(model: FullSize = MODEL, deliveries: int = 1, method: Method = Method.ADOPT) -> RunSize:
    return size_run(model.workload(deliveries, method), SparkSize(), Runner.SERVERLESS)


def publish_usd(model: FullSize = MODEL, deliveries: int = 1, method: Method = Method.ADOPT) -> float:
    return model.publish_usd(model.workload(deliveries, method), size_of(model, deliveries, method))
