"""Refuses deliveries before Spark starts, if names, sizes or some footers of their files break the data contract.

The Spark job validates every file of the deliveries that are left. Engines in SQL read all footers by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Arrival, LandedObject
from dedup_clone.contract.landed_objects import (
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
    record_refusals(services, refused, run_id=attempt.run_id)
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
            problems = _problems(services, attempt, services.arrivals.read(delivery))
        if not problems:
            break
        refused.append(RefusedDelivery(delivery, refusal_reason(attempt.feed, delivery, problems)))
    return tuple(reversed(refused))


def _problems(services: Services, attempt: Attempt, arrival: Arrival) -> list[str]:
    """What is wrong with the names and sizes of a delivery's files, or else with the footers of some of them."""
    uri = object_uri(arrival)
    objects, problems = data_objects(attempt, arrival, uri)
    problems += empty_files(objects, uri)
    if problems:
        return problems
    return read_sample(services, arrival, [found.landed for found in objects], attempt.since)[1]


def read_sample(
    services: Services, arrival: Arrival, files: Sequence[LandedObject], since: Mapping[str, int]
) -> tuple[list[ParquetFooter], list[str]]:
    """The footers of FOOTERS_READ of the files, evenly spaced, and what is wrong with them.

    Files that are gone or were replaced are left out: the job compares all files with the inventory.
    """
    count = min(len(files), FOOTERS_READ)
    sample = {landed.name: landed.generation for landed in (files[n * len(files) // count] for n in range(count))}
    stored = services.landing.store.stat(list(sample))
    names = [info.name for info in stored if info.object_generation == sample[info.name]]
    optional = {path for path, first_id in since.items() if arrival.delivery.snapshot_id < first_id}
    footers = read_footers(services.landing.store, names)
    table, landing = services.feed.table, services.feed.landing
    optional |= {table.snapshot_id_column, *([table.partition_column] if landing.date_folders else [])}
    columns = table.to_contract().columns
    problems = [
        f"file [gs://{arrival.bucket}/{footer.name}] {problem}"
        for footer in footers
        for problem in _footer_problems(footer, columns, optional)
    ]
    return footers, problems


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
