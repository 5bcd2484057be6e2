"""Refuses deliveries before Spark starts, if names, sizes or some footers of their files break the data contract.

The Spark job validates every file of the deliveries that are left. Engines in SQL read all footers by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.landed_objects import (
    DataObject,
    ObjectVersion,
    changed_objects,
    data_objects,
    empty_files,
    refusal_reason,
)
from dedup_clone.contract.manifest import Candidate, RefusedDelivery
from dedup_clone.contract.parquet import describe_expected, describe_leaf, describe_undeclared, holds_type
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.publish.attempts import record_refusals
from dedup_clone.publish.recovery import end_if_all_refused
from dedup_clone.publish.services import Services
from dedup_clone.state.landing import Marker, ParquetFooter, read_footers

FOOTERS_READ = 32  # of each delivery, in about a second; a delivery may have many thousands of files


def without_refused_deliveries(services: Services, attempt: Attempt) -> Attempt:
    """Refuse deliveries by the names, sizes and footers of their files; return the attempt without these deliveries.

    The refusals are recorded. If no delivery is left, the attempt is ended, and DeliveryRefused is raised.
    """
    refused = _find_refused(services, attempt)
    if not refused:
        return attempt
    refused_deliveries = {item.delivery for item in refused}
    left = tuple(delivery for delivery in attempt.deliveries if delivery not in refused_deliveries)
    if not left:
        services.manifests.write_attempt(attempt)
        services.manifests.write_candidate(attempt.id, Candidate(refused=refused))
        end_if_all_refused(services, attempt.id)
    record_refusals(services, refused)
    return replace(attempt, deliveries=left, snapshot_id=left[-1].snapshot_id)


def _find_refused(services: Services, attempt: Attempt) -> tuple[RefusedDelivery, ...]:
    """Examine the deliveries from the newest on, and return the refused ones, oldest first.

    The search ends at the first delivery without a problem: Spark has to start for it anyway, and validates the older
    ones too. The search also ends at a delivery that the parent includes, because the job possibly never reads it.
    """
    refused: list[RefusedDelivery] = []
    for delivery in reversed(attempt.deliveries):
        problems = []
        if delivery not in attempt.folded:
            problems = examine_landing(services, attempt, services.arrivals.read(delivery)).problems
        if not problems:
            break
        refused.append(RefusedDelivery(delivery, refusal_reason(attempt.feed, delivery, problems)))
    return tuple(reversed(refused))


@dataclass(frozen=True)
class LandedFiles:
    """The data files of a delivery, the footers of some of them, and why the delivery is to be refused."""

    files: list[DataObject]
    footers: list[ParquetFooter]
    problems: list[str]


def examine_landing(services: Services, attempt: Attempt, arrival: Arrival) -> LandedFiles:
    """Examine the names and sizes of a delivery's files and, if these are right, FOOTERS_READ footers, evenly spaced.

    Files that are gone or were replaced are left out: the job compares all files with the inventory.
    """
    uri = object_uri(arrival)
    files, problems = data_objects(attempt, arrival, uri)
    problems += empty_files(files, uri)
    if problems:
        return LandedFiles(files, [], problems)
    count = min(len(files), FOOTERS_READ)
    sampled = [files[number * len(files) // count].landed for number in range(count)]
    sample = {landed.name: landed.generation for landed in sampled}
    stored = services.landing.store.stat(list(sample))
    names = [info.name for info in stored if info.object_generation == sample[info.name]]
    optional = {path for path, first_id in attempt.since.items() if arrival.delivery.snapshot_id < first_id}
    optional |= attempt.table.columns_in_folders(date_folders=attempt.date_folders)
    footers = read_footers(services.landing.store, names)
    problems = [
        f"file [gs://{arrival.bucket}/{footer.name}] {problem}"
        for footer in footers
        for problem in _footer_problems(footer, attempt.table.columns, optional)
    ]
    return LandedFiles(files, footers, problems)


def _footer_problems(footer: ParquetFooter, columns: tuple[Column, ...], optional: set[str]) -> list[str]:
    """Problems of the columns of a file. Columns inside of nested ones are left to the Spark job.

    `optional`: the paths of the declared columns that files of this delivery need not have.
    """
    if footer.problem:
        return [f"cannot be read as Parquet: {footer.problem}"]
    declared = {column.name: column for column in columns}
    found = dict.fromkeys(leaf.column for leaf in footer.leaves)
    problems = [describe_undeclared(name, declared) for name in found if name not in declared]
    for leaf in footer.leaves:
        column = declared.get(leaf.column)
        if column is None or leaf.is_nested or column.mode is ColumnMode.REPEATED or column.fields:
            continue
        if not holds_type(column.type, leaf.physical_type, json.loads(leaf.annotation)):
            type_text = describe_leaf(leaf.physical_type, leaf.logical_type)
            problems.append(f"column [{leaf.column}] is [{type_text}], expected {describe_expected(column.type)}")
    missing = [column for column in columns if column.name not in found and column.name not in optional]
    return problems + [f"column [{column.name}] is missing, expected [{column.type}]" for column in missing]


def changes_since_arrival(services: Services, arrival: Arrival) -> list[str]:
    """One problem for each object that is gone, was replaced or appeared since the delivery was registered."""
    marker = Marker(arrival.delivery, arrival.folder, arrival.marker, arrival.arrived_at)
    objects = services.landing.inventory(arrival.feed, marker).objects
    versions = {o.name.removeprefix(arrival.folder): ObjectVersion(o.generation, o.size) for o in objects}
    return changed_objects(arrival, versions, object_uri(arrival))


def object_uri(arrival: Arrival) -> Callable[[str], str]:
    """A function from an object's name within the delivery's folder to its URI."""
    return lambda name: f"gs://{arrival.bucket}/{arrival.folder}{name}"
