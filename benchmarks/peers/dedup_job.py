"""Runs this project's dedup job, from the request to the candidate, in the Spark session of this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.input_files import InputFiles
from benchmarks.peer import Peer, PeerResult
from benchmarks.published_parent import open_feed, request_publish
from benchmarks.row_counts import RowCounts
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_spark import storage
from dedup_spark.execution.job_log import JobLog
from dedup_spark.job import DedupJob


class DedupJobPeer(Peer):
    """The dedup job as a peer. `plan`, `compare_values` and `exact` are fields of the job's request.

    `stored_fingerprints`: whether the job finds the fingerprints that were stored when the parent was published.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        plan: str = "auto",
        *,
        stored_fingerprints: bool = True,
        compare_values: bool = True,
        exact: bool = False,
    ) -> None:
        super().__init__(session)
        self._plan, self._stored_fingerprints, self._compare_values, self._exact = (
            Plan(plan),
            stored_fingerprints,
            compare_values,
            exact,
        )

    def prepare(self, inputs: InputFiles, out: Path) -> None:
        feed = open_feed(inputs, self.session(), out, stored_fingerprints=self._stored_fingerprints)
        feed.plan, feed.compare_values, feed.exact = self._plan, self._compare_values, self._exact
        self._request = request_publish(feed, inputs)

    def run(self, inputs: InputFiles, out: Path) -> DedupRequest:
        DedupJob(self._request, self.session, JobLog(self._request)).run()
        return self._request

    def result(self, inputs: InputFiles, out: Path, returned: object) -> PeerResult:
        assert isinstance(returned, DedupRequest)
        uri = storage.join(returned.attempt_uri, "candidate.json")
        candidate = from_json(Candidate, storage.read_text(uri), where=uri)
        if candidate.manifest is None or candidate.load_uris_uri is None:
            raise RuntimeError(f"The job refused the benchmark's own rows: {candidate.refused[0].reason}")
        dates = candidate.manifest.dates
        plans = Counter(entry.plan for entry in dates)
        changed = [entry.changed for entry in dates if entry.changed is not None]
        counts = RowCounts(
            new=sum(entry.new_keys for entry in dates),
            changed=sum(changed) if len(changed) == len(dates) else None,
            missing=None,
            survivors=sum(entry.survivors for entry in dates),
            duplicates=sum(entry.ties for entry in dates),
        )
        metrics = candidate.metrics
        return PeerResult(
            files=tuple(storage.read_text(candidate.load_uris_uri).splitlines()),
            counts=counts,
            bytes_read=metrics.bytes_read,
            bytes_written=metrics.bytes_written,
            notes={
                "plans": ", ".join(f"{plan} {count}" for plan, count in sorted(plans.items())),
                "phases": ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in metrics.seconds.items()),
            },
        )
