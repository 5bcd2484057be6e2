"""What a publish costs besides its rows: the job as `spark-submit` starts it, cold, against the same job warm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.area import open_area
from benchmarks.document import table
from benchmarks.inputs import Inputs
from benchmarks.layout import CHECKOUT, RUNS, python_path
from benchmarks.material import SMALL, make_all, material
from benchmarks.measure import Spent, measuring
from benchmarks.peer import Result
from benchmarks.peers.registry import OURS
from benchmarks.records import read_record
from benchmarks.results import Figure, Results, figure, middle, save, wall
from benchmarks.rounds import Material, Plan, Rounds, WrongResult, file_judge, line_of
from benchmarks.runner import Run
from benchmarks.say import say
from benchmarks.sessions import submit_conf
from benchmarks.shape import Shape
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.request import Plan as JobPlan
from dedup_spark import storage
from tests.spark.submitting import options

COMMAND = "fixed-cost"
ROWS = 26_000_000
COLD, COLD_WITH_SPARK = "cold-adopt", "cold-window"
_ROUNDS, _REPEATS = 2, 3
_TIMEOUT_S = 600


def run(rows: int) -> Results:
    shape = Shape(rows)
    make_all([SMALL, shape], say)
    large, small = material(shape), material(SMALL)
    found: list[Figure] = []
    for number in range(_ROUNDS):
        for peer, plan, measured, dates in (
            (COLD, JobPlan.AUTO, large, shape.dates),
            (COLD, JobPlan.AUTO, small, SMALL.dates),
            (COLD_WITH_SPARK, JobPlan.WINDOW, small, SMALL.dates),
        ):
            cold = _submit(peer, plan, measured)
            say(line_of(cold, number))
            found.append(figure(cold, measured.dataset.rows, dates))
    warm = Plan(OURS, (large, small), 1, _REPEATS, rehearse=True)
    rounds = Rounds(small.inputs, say)
    for one in rounds.run([warm]):
        rows_of = {m.dataset.name: m.dataset.rows for m in (large, small)}
        found.append(figure(one, rows_of[one.inputs], shape.dates))
    return save(COMMAND, found, rounds.failures, is_default_size=rows == ROWS)


def _submit(peer: str, plan: JobPlan, measured: Material) -> Run:
    """One publish by a process of its own, judged."""
    RUNS.mkdir(parents=True, exist_ok=True)
    out = Path(tempfile.mkdtemp(prefix="cold-", dir=RUNS))
    inputs = read_record(Inputs, measured.inputs)
    try:
        area = open_area(inputs, None, out, carried=True)
        area.plan = plan
        request = area.request([area.arrive(inputs.snapshot_id)])
        spent = _spark_submit(request)
        uri = storage.join(request.attempt_uri, "candidate.json")
        candidate = from_json(Candidate, storage.read_text(uri), where=uri)
        assert candidate.load_uris_uri
        files = storage.read_text(candidate.load_uris_uri).splitlines()
        if file_judge().of(files) != measured.dataset.answer:
            raise WrongResult(f"The cold job's table of [{inputs.name}] is not the right one: look at [{out}].")
        phases = {name: f"{seconds:.2f}" for name, seconds in candidate.metrics.seconds.items()}
        return Run(peer, inputs.name, 0, spent, Result(tuple(files), notes=phases), 0, candidate.metrics.bytes_written)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _spark_submit(request: DedupRequest) -> Spent:
    uri = storage.join(request.attempt_uri, "request.json")
    storage.write_text(uri, to_json(request))
    folder = Path(sys.executable).parent
    command = [
        str(folder / "spark-submit"),
        *options(submit_conf()),
        str(CHECKOUT / "spark_jobs/dedup_snapshot.py"),
        "--request",
        uri,
    ]
    # As the runner of the DAGs does: Spark's Python daemon is the job's own, found below spark_jobs.
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": python_path(), "PATH": path}
    with measuring() as spent:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"The cold job failed, its last words: {(done.stdout + done.stderr)[-3000:]}")
    return spent


def report(results: Results) -> str:
    """Warm walls are subtracted: what is left is Spark's start, imports, planning and the commit."""
    large = max(results.figures, key=lambda one: one.rows).inputs
    small = min(results.figures, key=lambda one: one.rows).inputs
    cases = (
        ("adopt, all of it", COLD, large),
        ("adopt, small: the driver does it without Spark", COLD, small),
        ("window, small: Spark must start", COLD_WITH_SPARK, small),
    )
    lines = []
    for title, peer, inputs in cases:
        cold, warm = results.of(peer, inputs), results.of(OURS, inputs)
        fixed = f"{wall(cold) - wall(warm):.2f}" if peer == COLD else ""
        lines.append(
            [
                title,
                f"{cold[0].rows:,}",
                f"{wall(cold):.2f}",
                f"{middle(cold, lambda one: one.cpu_s):.1f}",
                f"{wall(warm):.2f}" if peer == COLD else "",
                fixed,
                ", ".join(f"{name} {seconds}" for name, seconds in cold[0].notes.items()),
            ]
        )
    heads = ["job", "rows a side", "cold process, s", "CPU s", "warm, s", "fixed cost, s", "phases of the first, s"]
    return f"{table(heads, lines)}\n\n{results.made_at} UTC, {results.machine}."
