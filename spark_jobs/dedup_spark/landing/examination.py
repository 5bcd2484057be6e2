"""All deliveries of a request, judged: which are applied, which are refused and why. Nothing is written here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from dedup_clone.contract.delivery import Arrival, Delivery
from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.contract.manifest import RefusedDelivery
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.fan_out import FanOut
from dedup_spark.landing.inspection import Inspected, Inspector, LandedFile
from dedup_spark.landing.inventory import changed_objects, data_files
from dedup_spark.landing.spark_probe import unreadable_by_spark

Inspect = Callable[[Sequence[LandedFile]], list[Inspected]]

_PROBLEMS_NAMED = 5


@dataclass(frozen=True)
class ExaminedDelivery:
    """A delivery without fault. `rows_by_date` counts all its rows, `kept` those within the retention."""

    arrival: Arrival
    files: tuple[Inspected, ...]
    rows_by_date: dict[date, int]
    kept: dict[date, int]

    @property
    def delivery(self) -> Delivery:
        return self.arrival.delivery

    @property
    def bytes(self) -> int:
        return sum(f.file.size for f in self.files)

    def files_of(self, day: date) -> tuple[Inspected, ...]:
        """Those with rows of the date."""
        return self._by_date.get(day, ())

    @cached_property
    def _by_date(self) -> dict[date, tuple[Inspected, ...]]:
        found: defaultdict[date, list[Inspected]] = defaultdict(list)
        for inspected in self.files:
            for day, rows in inspected.rows_by_date.items():
                if rows:
                    found[day].append(inspected)
        return {day: tuple(files) for day, files in found.items()}


@dataclass(frozen=True)
class Examination:
    """`applied` in ascending precedence."""

    applied: tuple[ExaminedDelivery, ...]
    refused: tuple[RefusedDelivery, ...]


def examine(
    request: DedupRequest,
    arrivals: tuple[Arrival, ...],
    newest_known: int | None,
    fan_out: FanOut,
    *,
    whole: bool,
    inspect: Inspect | None = None,
) -> Examination:
    """Judge every delivery. `newest_known` is the highest snapshot id of the parent, None without a parent.

    `whole`, after Spark failed: Spark too reads every file that was found to be good. `inspect` judges the files where
    the caller has more to do with their rows.
    """
    problems: dict[Delivery, list[str]] = {}
    files: list[LandedFile] = []
    owner: dict[str, Delivery] = {}
    for arrival in arrivals:
        found, wrong = data_files(arrival, request)
        wrong += changed_objects(arrival) + _order_problems(request, arrival.delivery, newest_known)
        problems[arrival.delivery] = wrong
        if not wrong:
            files += found
            owner.update((f.uri, arrival.delivery) for f in found)
    inspected: defaultdict[Delivery, list[Inspected]] = defaultdict(list)
    for result in inspect(files) if inspect else inspect_files(request, files, fan_out):
        delivery = owner[result.file.uri]
        inspected[delivery].append(result)
        problems[delivery] += result.problems
    for arrival in arrivals:
        if not problems[arrival.delivery] and not any(f.rows_by_date for f in inspected[arrival.delivery]):
            problems[arrival.delivery] += _no_rows(arrival, len(inspected[arrival.delivery]))
    if whole:
        good = [f for delivery, found in inspected.items() if not problems[delivery] for f in found]
        for fault, said in unreadable_by_spark(fan_out.spark, good):
            problems[owner[fault.file.uri]].append(f"file [{fault.file.uri}] cannot be read by Spark: {said}")
    return Examination(
        applied=tuple(_examined(request, a, inspected[a.delivery]) for a in arrivals if not problems[a.delivery]),
        refused=tuple(
            RefusedDelivery(a.delivery, _reason(request, a.delivery, problems[a.delivery]))
            for a in arrivals
            if problems[a.delivery]
        ),
    )


def inspect_files(request: DedupRequest, files: Sequence[LandedFile], fan_out: FanOut) -> list[Inspected]:
    """Judges each file by a pass of its own."""
    inspector = Inspector(request.table, request.latest_day, own_ids=request.takes_over is not None)
    return fan_out.map(inspector, files, sum(f.size for f in files), "inspect landed files")


def require_unchanged(request: DedupRequest, applied: tuple[ExaminedDelivery, ...]) -> None:
    """Landing was not touched while the job read it. Raises DeliveryRefused."""
    for examined in applied:
        wrong = changed_objects(examined.arrival)
        if wrong:
            raise DeliveryRefused(_reason(request, examined.delivery, wrong))


def _examined(request: DedupRequest, arrival: Arrival, files: list[Inspected]) -> ExaminedDelivery:
    rows: Counter[date] = Counter()
    for inspected in files:
        rows.update(inspected.rows_by_date)
    kept = {day: count for day, count in rows.items() if day >= request.retention_day}
    return ExaminedDelivery(arrival, tuple(files), dict(rows), kept)


def _no_rows(arrival: Arrival, files: int) -> list[str]:
    folder = storage.object_uri(arrival.bucket, arrival.folder)
    return [f"folder [{folder}] holds no row in [{files}] data files, expected a complete snapshot"]


def _order_problems(request: DedupRequest, delivery: Delivery, newest_known: int | None) -> list[str]:
    late = newest_known is not None and delivery.snapshot_id < newest_known
    if request.update_id_mode is UpdateIdMode.LAST_SEEN or not late:
        return []
    return [
        f"snapshot id [{delivery.snapshot_id}] is below [{newest_known}], the highest that the table has: "
        f"update_id mode [last_changed] needs snapshots in order"
    ]


def _reason(request: DedupRequest, delivery: Delivery, problems: list[str]) -> str:
    named = "; ".join(problems[:_PROBLEMS_NAMED])
    more = f"; and {len(problems) - _PROBLEMS_NAMED} more" if len(problems) > _PROBLEMS_NAMED else ""
    if request.takes_over is not None:
        return (
            f"The existing table cannot become feed [{request.feed}]: {named}{more}. Nothing was changed. "
            f"Next: mend these rows in the table, then trigger the bootstrap again."
        )
    return (
        f"Delivery [{delivery.name}] of feed [{request.feed}] is refused, nothing of it was used: {named}{more}. "
        f"Next: correct it and deliver snapshot [{delivery.snapshot_id}] again, the marker last."
    )
