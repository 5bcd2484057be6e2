"""Writes the text of a feed file, with comments that say what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import yaml

from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.settings.strict_yaml import parse_yaml
from deploy.new_feed.proposal import Proposal
from deploy.new_feed.sample import Sample


def feed_text(name: str, owner: str, sample: Sample, proposal: Proposal) -> str:
    """The YAML text of feed `name`."""
    return "\n".join(_lines(name, owner, sample, proposal)) + "\n"


def _lines(name: str, owner: str, sample: Sample, proposal: Proposal) -> Iterator[str]:
    table = proposal.table
    yield "# yaml-language-server: $schema=../../docs/feed.schema.json"
    yield f"feed: {_scalar(name)}"
    yield f"description: One row for each {_as_list_in_words(table.keys)}."
    yield f"owner: {_scalar(owner)}"
    yield "landing:"
    yield f"  prefix: {_scalar(sample.prefix or name)}"
    if sample.marker is not None and sample.marker != "_SUCCESS":
        yield f"  marker: {_scalar(sample.marker)}"
    if sample.date_column is None:
        yield "  date_folders: false"
    yield "table:"
    yield "  columns:"
    for column in table.columns:
        yield from _column(column, "    ")
    yield f"  partition_column: {_scalar(table.partition_column)}"
    yield f"  snapshot_id_column: {_scalar(table.snapshot_id_column)}"
    yield f"  # Measured over {proposal.rows} rows: {_measured(proposal)}"
    for key, distinct in proposal.distinct_without.items():
        yield f"  # Without column {key} only {distinct} of {proposal.rows} keys would be different."
    for column_name, reason in proposal.unfit_keys.items():
        yield f"  # Column {column_name} would tell more rows apart, but {reason}."
    alike = "These columns tell as many rows apart" if proposal.surplus_rows else "Unique in the sample, too"
    for names in proposal.alternatives:
        yield f"  # {alike}: [{', '.join(names)}]"
    if proposal.unique_without_date:
        ids = ", ".join(proposal.ids)
        yield f"  # [{ids}] is unique without {table.partition_column}, too: a row whose date changes stays on both"
        yield f"  # dates. If that must not be, add `checks: {{unique_across_dates: [{ids}]}}`"
        yield "  # (docs/deliver-snapshots.md, keep an id on one date)."
    yield f"  keys: {_list(table.keys)}"
    if table.cluster_by:
        yield f"  cluster_by: {_list(table.cluster_by)}"
    yield f"  # Dates in the sample: {proposal.first} to {proposal.last}."
    yield "  # BigQuery deletes older days, and a publish drops their rows: set the days that readers need."
    yield f"  retention_days: {table.retention_days}"
    if proposal.surplus_rows:
        yield "checks:"
        yield "  duplicate_keys: warn"


def _measured(proposal: Proposal) -> str:
    if not proposal.surplus_rows:
        return "every row has a key of its own."
    return f"{proposal.surplus_rows} rows are duplicates: no choice of columns that can be keys tells them apart."


def _column(column: Column, indent: str) -> Iterator[str]:
    mode = "" if column.mode is ColumnMode.NULLABLE else f", mode: {column.mode}"
    if not column.fields:
        yield f"{indent}- {{name: {_scalar(column.name)}, type: {column.type}{mode}}}"
        return
    yield f"{indent}- name: {_scalar(column.name)}"
    yield f"{indent}  type: {column.type}"
    if mode:
        yield f"{indent}  mode: {column.mode}"
    yield f"{indent}  fields:"
    for field in column.fields:
        yield from _column(field, f"{indent}    ")


def _scalar(text: str) -> str:
    """The text as a YAML scalar, in quotes if YAML 1.1 or 1.2 would read another value, as for a column `no`."""
    scalar = yaml.safe_dump(text, allow_unicode=True, width=10_000).removesuffix("\n").removesuffix("\n...")
    return scalar if parse_yaml(scalar) == text else json.dumps(text)


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(map(_scalar, names))}]"


def _as_list_in_words(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
