"""The deliveries of a request, judged by BigQuery over the landed files: which are applied, which are refused and why.

Footers say which columns a file has; one query a delivery counts what is wrong with its rows. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.errors import DeliveryRefused, JobFailed
from dedup_clone.contract.landed_objects import data_objects
from dedup_clone.contract.manifest import RefusedDelivery
from dedup_clone.contract.request import DedupRequest
from dedup_clone.engines.declared_columns import column_problems
from dedup_clone.engines.external import DELIVERY, external_files, external_list
from dedup_clone.engines.row_problems import row_problems
from dedup_clone.publish.jobs import query_configuration, run_step_job
from dedup_clone.publish.landing_changes import changes_since, uri_of
from dedup_clone.publish.services import Services
from dedup_clone.state.parquet_footer import read_footers

_PROBLEMS_NAMED = 5


@dataclass(frozen=True)
class ExaminedDelivery:
    """A delivery without fault. `uris_uri` is the list of its files; the days are those within the retention."""

    arrival: Arrival
    uris_uri: str
    rows: int
    dropped_rows: int
    first_day: date | None
    last_day: date | None

    @property
    def delivery(self) -> Delivery:
        return self.arrival.delivery


@dataclass(frozen=True)
class Examination:
    """`applied` in ascending precedence. `bytes_processed` are those of the queries over landed files."""

    applied: tuple[ExaminedDelivery, ...]
    refused: tuple[RefusedDelivery, ...]
    bytes_processed: int


def examine(services: Services, request: DedupRequest) -> Examination:
    """Judge every delivery of the request. Raises JobFailed when BigQuery fails for another reason than the files."""
    applied, refused, processed = [], [], 0
    for number, item in enumerate(request.deliveries, start=1):
        judge = _Judge(services, request, services.arrivals.read(item.delivery), number)
        examined, problems = judge.examine()
        processed += judge.bytes_processed
        if examined is None:
            refused.append(RefusedDelivery(item.delivery, refusal(request, item.delivery, problems)))
        else:
            applied.append(examined)
    return Examination(tuple(applied), tuple(refused), processed)


def require_unchanged(services: Services, request: DedupRequest, applied: tuple[ExaminedDelivery, ...]) -> None:
    """Landing was not touched while BigQuery read it. Raises DeliveryRefused."""
    for examined in applied:
        wrong = changes_since(services, examined.arrival)
        if wrong:
            raise DeliveryRefused(refusal(request, examined.delivery, wrong))


def refusal(request: DedupRequest, delivery: Delivery, problems: list[str]) -> str:
    """The reason that is kept, and what the producer does about it."""
    named = "; ".join(problems[:_PROBLEMS_NAMED])
    more = f"; and {len(problems) - _PROBLEMS_NAMED} more" if len(problems) > _PROBLEMS_NAMED else ""
    return (
        f"Delivery [{delivery.name}] of feed [{request.feed}] is refused, nothing of it was used: {named}{more}. "
        f"Next: correct it and deliver snapshot [{delivery.snapshot_id}] again, the marker last."
    )


class _Judge:
    """Judges one delivery, the `number`-th of its request."""

    def __init__(self, services: Services, request: DedupRequest, arrival: Arrival, number: int) -> None:
        self._services = services
        self._request = request
        self._arrival = arrival
        self._number = number
        self.bytes_processed = 0

    def examine(self) -> tuple[ExaminedDelivery | None, list[str]]:
        found, problems = data_objects(self._request, self._arrival, uri_of(self._arrival))
        files = [item.landed for item in found]
        problems += [
            f"file [{uri_of(self._arrival)(item.name)}] is empty (0 bytes), expected a Parquet file"
            for item in found
            if not item.landed.size
        ]
        problems += changes_since(self._services, self._arrival)
        problems = problems or self._schema_problems(files)
        if problems:
            return None, problems
        uris_uri = self._write_uris(files)
        try:
            counts = self._count_rows(uris_uri)
        except JobFailed as error:
            if not error.by_content:
                raise
            return None, [f"BigQuery cannot read its files: {error.message}"]
        problems = [problem for count in counts for problem in row_problems(self._request, self._arrival, count)]
        if problems:
            return None, problems
        return self._examined(uris_uri, counts), []

    def _schema_problems(self, files: list[LandedObject]) -> list[str]:
        """Every file has the declared columns: BigQuery takes them from one file of each physical schema, free."""
        problems, judged = [], set()
        for footer in read_footers(self._services.landing.store, [file.name for file in files]):
            uri = f"gs://{self._arrival.bucket}/{footer.name}"
            if footer.problem:
                problems.append(f"file [{uri}] cannot be read as Parquet: {footer.problem}")
            elif footer.schema not in judged:
                judged.add(footer.schema)
                problems += [f"file [{uri}] {problem}" for problem in self._columns_of(uri)]
        return problems

    def _columns_of(self, uri: str) -> list[str]:
        jobs = self._services.warehouse.jobs
        try:
            found = jobs.schema_of(f"SELECT * FROM {DELIVERY}", external_files([uri]))
        except JobFailed as error:
            return [f"cannot be read by BigQuery: {error.message}"]
        return column_problems(self._request.table.columns, found)

    def _write_uris(self, files: list[LandedObject]) -> str:
        folder = self._services.layout.attempt_folder(self._request.attempt)
        name = f"{folder}landed-{self._arrival.delivery.name}.txt"
        self._services.store.put(name, "".join(f"gs://{self._arrival.bucket}/{file.name}\n" for file in files))
        return self._services.store.uri(name)

    def _count_rows(self, uris_uri: str) -> list[Mapping[str, Any]]:
        services, request = self._services, self._request
        parameters = {
            "snapshot_id": ("INT64", str(self._arrival.delivery.snapshot_id)),
            "retention_day": ("DATE", request.retention_day.isoformat()),
            "latest_day": ("DATE", request.latest_day.isoformat()),
            "date_folders": ("BOOL", str(request.date_folders).lower()),
        }
        sql = services.warehouse.render("engines/examine_delivery.sql", names=services.names, table=request.table)
        configuration = query_configuration(
            services, "examine", sql, parameters, tableDefinitions=external_list(uris_uri)
        )
        job = run_step_job(services, request.attempt, f"examine_{self._number}", configuration)
        self.bytes_processed += job.bytes_processed
        return list(services.warehouse.jobs.rows(job.job_id))

    def _examined(self, uris_uri: str, counts: list[Mapping[str, Any]]) -> ExaminedDelivery:
        kept = [count for count in counts if count["first_day"] is not None]
        return ExaminedDelivery(
            arrival=self._arrival,
            uris_uri=uris_uri,
            rows=sum(count["row_count"] for count in counts),
            dropped_rows=sum(count["dropped_rows"] for count in counts),
            first_day=min((count["first_day"] for count in kept), default=None),
            last_day=max((count["last_day"] for count in kept), default=None),
        )
