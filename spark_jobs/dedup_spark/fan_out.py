"""One function over many objects: in threads on the driver when they are few, as a Spark job when they are many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")

# A Spark job with Python workers costs about a second; a driver of two cores inspects 100 MB of Parquet in that time.
_DRIVER_ITEMS = 256
_DRIVER_BYTES = 256 << 20
_THREADS = 8


@dataclass(frozen=True)
class FanOut:
    """`session` is asked for only when a Spark job is worth it."""

    session: Callable[[], SparkSession]

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], total_bytes: int, description: str
    ) -> list[Result]:
        """Results in the order of `items`. They come to the driver: let them be small."""
        if len(items) <= _DRIVER_ITEMS and total_bytes <= _DRIVER_BYTES:
            with ThreadPoolExecutor(_THREADS) as pool:
                return list(pool.map(function, items))
        context = self.session().sparkContext
        context.setJobDescription(description)

        def each(part: Iterable[Item]) -> Iterable[Result]:
            return map(function, part)

        slices = min(len(items), max(context.defaultParallelism * 4, len(items) // 64))
        return context.parallelize(items, slices).mapPartitions(each).collect()
