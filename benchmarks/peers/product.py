"""The product: the job's own code from request to candidate manifest, in a warm session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession

from benchmarks.area import open_area
from benchmarks.inputs import Inputs
from benchmarks.peer import Peer, Result
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_spark import fan_out, storage
from dedup_spark.job import DedupJob
from dedup_spark.progress import Facts
from dedup_spark.session import SparkOf


class Product(Peer):
    """Options are those of a request. `carried`: fingerprints lie beside the state, as the last publish left them.

    `in_tasks`: small dates, too, are worked on by Spark's Python workers and not by the driver.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        plan: str = "auto",
        *,
        carried: bool = True,
        compare_values: bool = True,
        exact: bool = False,
        in_tasks: bool = False,
    ) -> None:
        super().__init__(session)
        self._plan, self._carried, self._compare_values, self._exact = Plan(plan), carried, compare_values, exact
        self._driver_items = 0 if in_tasks else fan_out._DRIVER_ITEMS

    def prepare(self, inputs: Inputs, out: Path) -> None:
        area = open_area(inputs, self.session(), out, carried=self._carried)
        area.plan, area.compare_values, area.exact = self._plan, self._compare_values, self._exact
        self._request = area.request([area.arrive(inputs.snapshot_id)])

    def run(self, inputs: Inputs, out: Path) -> DedupRequest:
        with patch.object(fan_out, "_DRIVER_ITEMS", self._driver_items):
            DedupJob(self._request, SparkOf(self.session), Facts(self._request)).run()
        return self._request

    def result(self, inputs: Inputs, out: Path, returned: object) -> Result:
        assert isinstance(returned, DedupRequest)
        uri = storage.join(returned.attempt_uri, "candidate.json")
        candidate = from_json(Candidate, storage.read_text(uri), where=uri)
        if candidate.manifest is None or candidate.load_uris_uri is None:
            raise RuntimeError(f"The job refused the benchmark's own rows: {candidate.refused[0].reason}")
        plans = Counter(entry.plan for entry in candidate.manifest.dates)
        metrics = candidate.metrics
        return Result(
            files=tuple(storage.read_text(candidate.load_uris_uri).splitlines()),
            bytes_read=metrics.bytes_read,
            bytes_written=metrics.bytes_written,
            notes={
                "plans": ", ".join(f"{plan} {count}" for plan, count in sorted(plans.items())),
                "phases": ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in metrics.seconds.items()),
            },
        )
