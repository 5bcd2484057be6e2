"""Measures the part of the job's time that does not depend on rows (sub-command `fixed-cost`).

On the same files the job runs in a new process (cold), and in a process that has run the job before (warm).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.dataset_shape import DatasetShape
from benchmarks.docs_tables import table
from benchmarks.input_files import InputFiles
from benchmarks.interleaved_rounds import (
    InterleavedRounds,
    PeerSchedule,
    PreparedDataset,
    WrongTable,
    file_digest_reader,
    log_progress,
    run_line,
)
from benchmarks.json_records import read_record
from benchmarks.paths import CHECKOUT, RUNS, pythonpath_variable
from benchmarks.peer import PeerResult
from benchmarks.peer_process import MeasuredRun
from benchmarks.peers.registry import ADOPT
from benchmarks.prepared_datasets import SMALL, prepare_all, prepared_dataset
from benchmarks.published_parent import open_feed, request_publish
from benchmarks.resource_usage import ResourceUsage, measure_usage
from benchmarks.results import Results, RunFigures, median, run_figures, save, wall
from benchmarks.spark_sessions import submit_conf
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.request import Plan as JobPlan
from dedup_spark import storage
from testkit.spark_submit_conf import conf_arguments

COMMAND = "fixed-cost"
ROWS = 26_000_000
# Names of peers in the results: the job in a new process, with the plan that it chooses (`adopt`), and with `window`.
COLD, COLD_WINDOW = "cold-adopt", "cold-window"
_ROUNDS, _REPEATS = 2, 3
_TIMEOUT_S = 600


def run(rows: int) -> Results:
    """Measure on a snapshot of `rows` rows and on a small one, and store the results."""
    shape = DatasetShape(rows)
    prepare_all([SMALL, shape], log_progress)
    large, small = prepared_dataset(shape), prepared_dataset(SMALL)
    figures: list[RunFigures] = []
    for number in range(_ROUNDS):
        for peer, plan, prepared, dates in (
            (COLD, JobPlan.AUTO, large, shape.dates),
            (COLD, JobPlan.AUTO, small, SMALL.dates),
            (COLD_WINDOW, JobPlan.WINDOW, small, SMALL.dates),
        ):
            cold = _measure_cold(peer, plan, prepared)
            log_progress(run_line(cold, number))
            figures.append(_cold_figures(cold, prepared.dataset.rows, dates))
    warm = PeerSchedule(ADOPT, (large, small), 1, _REPEATS, warm_up=True)
    rounds = InterleavedRounds(small.inputs_path, log_progress)
    for warm_run in rounds.run([warm]):
        rows_by_name = {prepared.dataset.name: prepared.dataset.rows for prepared in (large, small)}
        figures.append(run_figures(warm_run, rows_by_name[warm_run.dataset_name], shape.dates))
    return save(COMMAND, figures, rounds.failures, is_default_size=rows == ROWS)


def _measure_cold(peer: str, plan: JobPlan, prepared: PreparedDataset) -> MeasuredRun:
    """Run the job in a new process with spark-submit. `peer`: its name in the results.

    Raises RuntimeError if the job fails, TimeoutExpired after _TIMEOUT_S, and WrongTable if it makes a wrong table.
    """
    RUNS.mkdir(parents=True, exist_ok=True)
    out = Path(tempfile.mkdtemp(prefix="cold-", dir=RUNS))
    inputs = read_record(InputFiles, prepared.inputs_path)
    try:
        feed = open_feed(inputs, None, out, stored_fingerprints=True)
        feed.plan = plan
        request = request_publish(feed, inputs)
        spent = _spark_submit(request)
        uri = storage.join(request.attempt_uri, "candidate.json")
        candidate = from_json(Candidate, storage.read_text(uri), where=uri)
        assert candidate.load_uris_uri
        files = storage.read_text(candidate.load_uris_uri).splitlines()
        if file_digest_reader().digest(files) != prepared.dataset.expected:
            raise WrongTable(f"The cold job made a wrong table from [{inputs.name}]: no figures are stored.")
        phases = {name: f"{seconds:.2f}" for name, seconds in candidate.metrics.seconds.items()}
        result = PeerResult(tuple(files), notes=phases)
        return MeasuredRun(peer, inputs.name, 0, spent, result, None, candidate.metrics.bytes_written)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _cold_figures(cold: MeasuredRun, rows: int, dates: int) -> RunFigures:
    """The figures of a cold run.

    They lack the memory of driver and workers: these are child processes of this process, but it is not known which
    child is the driver.
    """
    # `driver_bytes` is the memory of this process, which only waited here.
    python_bytes = cold.spent.python_bytes - cold.spent.driver_bytes
    return replace(run_figures(cold, rows, dates), python_bytes=python_bytes, worker_bytes=None, driver_bytes=None)


def _spark_submit(request: DedupRequest) -> ResourceUsage:
    """Run the job by spark-submit, and measure it. Raises RuntimeError if it fails, TimeoutExpired after _TIMEOUT_S."""
    uri = storage.join(request.attempt_uri, "request.json")
    storage.write_text(uri, to_json(request))
    folder = Path(sys.executable).parent
    command = [str(folder / "spark-submit"), *conf_arguments(submit_conf())]
    command += [str(CHECKOUT / "spark_jobs/dedup_snapshot.py"), "--request", uri]
    # The script spark-submit looks for Spark with the first `python3` on PATH. Spark's Python daemon, which starts the
    # workers, is a module of the job and is imported from PYTHONPATH.
    path_variable = f"{folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": pythonpath_variable(), "PATH": path_variable}
    with measure_usage() as spent:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"The cold job failed, the end of its log: {(done.stdout + done.stderr)[-3000:]}")
    return spent


def report(results: Results) -> str:
    """The table in Markdown. The fixed cost is the wall time of the cold job minus that of the warm job."""
    large = max(results.figures, key=lambda measured: measured.rows).dataset_name
    small = min(results.figures, key=lambda measured: measured.rows).dataset_name
    cases = (
        ("adopt, all rows", COLD, large),
        ("adopt, few rows", COLD, small),
        ("window, few rows", COLD_WINDOW, small),
    )
    lines = []
    for title, peer, dataset_name in cases:
        cold, warm = results.figures_of(peer, dataset_name), results.figures_of(ADOPT, dataset_name)
        fixed = f"{wall(cold) - wall(warm):.2f}" if peer == COLD else ""
        lines.append(
            [
                title,
                f"{cold[0].rows:,}",
                f"{wall(cold):.2f}",
                f"{median(cold, lambda measured: measured.cpu_s):.1f}",
                f"{wall(warm):.2f}" if peer == COLD else "",
                fixed,
                ", ".join(f"{name} {seconds}" for name, seconds in cold[0].notes.items() if seconds != "0.00"),
            ]
        )
    heads = [
        "job",
        "rows per input",
        "cold process, s",
        "CPU s",
        "warm, s",
        "fixed cost, s",
        "phases of the first cold run, s",
    ]
    return f"{table(heads, lines)}\n\n{results.made}"
