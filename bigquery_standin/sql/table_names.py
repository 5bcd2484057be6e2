"""Reads names of tables, datasets and INFORMATION_SCHEMA views, quoted as a whole or in parts."""

from __future__ import annotations

import re

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.statements import TableName

INFORMATION_SCHEMA = "INFORMATION_SCHEMA"
REGION_PREFIX = "region-"
REGIONAL_VIEWS = ("JOBS",)  # their dataset is a region, such as `region-us`
_TABLE = re.compile(r"[\w\- ]{1,1024}\Z")
_DATASET = re.compile(r"\w{1,1024}\Z")
_PROJECT = re.compile(r"(?:[a-z0-9.\-]+:)?[a-z][a-z0-9\-]*\Z")


def table_name_of(node: exp.Table) -> TableName:
    """The name of a table, an INFORMATION_SCHEMA view or a procedure.

    Raises InvalidQuery for a wrong name and for a partition decorator, NotImplementedConstruct for a table function, a
    wildcard table, and an unsupported path to an INFORMATION_SCHEMA view.
    """
    identifiers = [part for part in node.parts if isinstance(part, exp.Identifier)]
    if len(identifiers) != len(node.parts):
        raise NotImplementedConstruct(f"table function {node.this.name.upper()}")
    parts = [piece for part in identifiers for piece in part.name.split(".")]
    path, upper = ".".join(parts), [part.upper() for part in parts]
    if INFORMATION_SCHEMA in upper:
        return _information_schema(parts, upper.index(INFORMATION_SCHEMA))
    if parts[-1].endswith("*"):
        raise NotImplementedConstruct(f"wildcard table {path}")
    if "$" in parts[-1]:
        raise InvalidQuery(
            f"Table name [{path}] has a partition decorator, which SQL does not accept: filter on the partition column."
        )
    valid = len(parts) <= 3 and _TABLE.match(parts[-1]) and (len(parts) < 2 or _DATASET.match(parts[-2]))
    if not valid or (len(parts) == 3 and not _PROJECT.match(parts[0])):
        raise InvalidQuery(f"Invalid table name [{path}]: expected [PROJECT.]DATASET.TABLE or a part of it")
    padded: list[str | None] = [None] * (3 - len(parts)) + list(parts)
    return TableName(str(padded[2]), padded[1], padded[0])


def dataset_name(node: exp.Table | exp.Dot | None) -> tuple[str | None, str]:
    """The project (None if it is not written) and the dataset in the path of a dataset."""
    parts = [] if node is None else [part.name for part in node.parts]
    if not 1 <= len(parts) <= 2 or not _DATASET.match(parts[-1]):
        raise InvalidQuery(f"Invalid dataset name [{'.'.join(parts)}]: expected [PROJECT.]DATASET")
    return (parts[0] if len(parts) == 2 else None), parts[-1]


def _information_schema(parts: list[str], at: int) -> TableName:
    """The name of a view: its `table` is `INFORMATION_SCHEMA.VIEW`, its `dataset` a dataset or a region.

    `at`: which part is INFORMATION_SCHEMA, from 0.
    """
    view = ".".join(part.upper() for part in parts[at:])
    is_regional = at > 0 and parts[at - 1].lower().startswith(REGION_PREFIX)
    if at == 0 or len(parts) - at != 2 or at > 2 or is_regional != (parts[-1].upper() in REGIONAL_VIEWS):
        raise NotImplementedConstruct(
            f"{'.'.join(parts)} (only DATASET.INFORMATION_SCHEMA.VIEW, and {', '.join(REGIONAL_VIEWS)} of a region)"
        )
    return TableName(view, parts[at - 1], parts[0] if at == 2 else None)
