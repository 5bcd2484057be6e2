"""Readers query a table while publishes swap it. Every answer must be that of exactly one generation.

No answer may be of an older generation than the same reader's previous answer. The readers run in a process of their
own, so that they do not wait for the publisher's interpreter lock. Times of both processes can be compared, because all
processes of a machine share the clock of `time.monotonic()`.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from threading import Event
from typing import Any

from testkit.stack_snapshots import COLUMNS

Answer = tuple[tuple[Any, ...], ...]
THREADS = 16
PRODUCTS_READ = 2
# Every publish of a new snapshot changes the answer to each.
QUERIES = (
    "SELECT COUNT(*) AS n, SUM(attr_value) AS total FROM {table}",
    "SELECT update_id, COUNT(*) AS n, SUM(attr_value) AS total FROM {table} GROUP BY update_id ORDER BY update_id",
    f"SELECT * FROM {{table}} WHERE product_id < {PRODUCTS_READ} ORDER BY date, product_id",
)


def right_answers(rows: Sequence[Mapping[str, Any]]) -> tuple[Answer, ...]:
    """The answer to each query on a table with these rows."""
    values = defaultdict(list)
    for row in rows:
        values[row["update_id"]].append(row["attr_value"])
    by_id = tuple((id_, len(values[id_]), sum(values[id_])) for id_ in sorted(values))
    whole = sorted(
        (row for row in rows if row["product_id"] < PRODUCTS_READ), key=lambda row: (row["date"], row["product_id"])
    )
    totals = (sum(count for _, count, _ in by_id), sum(total for _, _, total in by_id))
    return (totals,), by_id, tuple(tuple(row[name] for name in COLUMNS) for row in whole)


@dataclass(frozen=True)
class Swap:
    """A swap that took effect between `began` and `ended`. `answers`: to each query while its generation is live."""

    generation: int
    answers: tuple[Answer, ...]
    began: float
    ended: float


@dataclass(frozen=True)
class Seen:
    """What one reader got as answer to a query between `began` and `ended`. `error`: empty unless the query failed."""

    query: int
    began: float
    ended: float
    answer: Answer
    error: str = ""


def wrong_answers(seen: Sequence[Seen], swaps: Sequence[Swap]) -> list[Seen]:
    """Those of one reader's answers that no generation gives which can have been live during the query.

    An answer is also wrong if the reader has seen a newer generation before.
    """
    wrong, last = [], 0
    for one in seen:
        right = [
            number
            for number, swap in enumerate(swaps)
            if not one.error
            and number >= last
            and swap.answers[one.query] == one.answer
            and swap.began <= one.ended
            and all(later.ended >= one.began for later in swaps[number + 1 : number + 2])
        ]
        if right:
            last = right[0]
        else:
            wrong.append(one)
    return wrong


def _read(client: Any, table: str, pause_s: float, stopping: Event) -> list[Seen]:
    seen = []
    for query in cycle(range(len(QUERIES))):
        if stopping.wait(pause_s):
            return seen
        began, answer, error = time.monotonic(), (), ""
        try:
            rows = client.query_and_wait(QUERIES[query].format(table=table))
            answer = tuple(tuple(row.values()) for row in rows)
        except Exception as failure:  # whatever the client raises is an error that a reader would see
            error = f"{type(failure).__name__}: {failure}"
        seen.append(Seen(query, began, time.monotonic(), answer, error))
    raise AssertionError("a cycle has no end")


def read_until_told(channel: Connection, new_client: Callable[[], Any], table: str, per_second: float) -> None:
    """The main function of the readers' process: it says that it reads, waits, and sends what each reader has seen."""
    stopping = Event()
    with ThreadPoolExecutor(THREADS) as pool:
        pause_s = THREADS / per_second
        readers = [pool.submit(_read, new_client(), table, pause_s, stopping) for _ in range(THREADS)]
        channel.send(None)
        channel.recv()
        stopping.set()
        channel.send([reader.result() for reader in readers])


@contextmanager
def reading(new_client: Callable[[], Any], table: str, per_second: float) -> Iterator[list[list[Seen]]]:
    """Read in the `with` block, with at most `per_second` queries a second. The list is filled at the block's end.

    `new_client`: returns a new BigQuery client; it must be possible to pickle this function.
    """
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=read_until_told, args=(theirs, new_client, table, per_second), daemon=True)
    process.start()
    theirs.close()  # so that `recv` fails when the process ends
    seen: list[list[Seen]] = []
    try:
        ours.recv()
        yield seen
        ours.send(None)
        seen += ours.recv()
        process.join()
    finally:
        process.kill()
