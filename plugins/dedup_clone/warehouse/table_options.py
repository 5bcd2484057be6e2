"""Describes what a table has besides rows, columns and layout: options, constraints, descriptions, policies.

Each of these is an entry, a name and a value, both as text, so that two tables can be compared and a message can name
the difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dedup_clone.contract.table import OWN_LABELS

FRIENDLY_NAME, PARTITION_FILTER = "friendly name", "require_partition_filter"
KMS_KEY, PRIMARY_KEY, MAX_STALENESS = "KMS key", "primary key", "max_staleness"
COLUMN = "column"
DESCRIPTION = "description of column"
RESOURCE_TAG = "resource tag"
POLICY_TAG = "policy tag"
TYPE_PARAMETERS = "type parameters"  # as in STRING(10) and NUMERIC(5, 2); a column of the table contract has none


def staleness_text(minutes: int) -> str:
    """The value of `max_staleness`, as BigQuery writes an interval."""
    return f"0-0 0 {minutes // 60}:{minutes % 60}:0"


def column_entry(path: str) -> str:
    return f"{COLUMN} [{path}]"


def label_entry(key: str) -> str:
    return f"label [{key}]"


def description_entry(path: str) -> str:
    return f"{DESCRIPTION} [{path}]"


def policy_tag_entry(path: str) -> str:
    return f"{POLICY_TAG} of column [{path}]"


def row_policy_entry(name: str) -> str:
    return f"row access policy [{name}]"


def table_options(resource: Mapping[str, Any]) -> dict[str, str]:
    """The entries of a table, given tables.get's answer. Labels of this project and row policies are left out."""
    return dict(_entries(resource))


def policy_tags(entries: Mapping[str, str]) -> dict[str, str]:
    """The policy tag of each tagged column among the entries, by column path, nested columns too."""
    beginning = policy_tag_entry("").removesuffix("]")
    return {name[len(beginning) : -1]: tag for name, tag in entries.items() if name.startswith(beginning)}


def without_removed_columns(entries: Mapping[str, str], *, retained: Collection[str]) -> dict[str, str]:
    """The entries without those of removed columns. `retained`: the names of the columns that stay."""

    def is_kept(entry: str) -> bool:
        _, found, path = entry.partition(" of column [")
        return not found or path.rstrip("]").split(".")[0] in retained

    return {entry: value for entry, value in entries.items() if is_kept(entry)}


def with_values(
    fields: Sequence[Mapping[str, Any]], key: str, values: Mapping[str, str], prefix: str = ""
) -> list[dict[str, Any]]:
    """Copies of a schema's fields, in the form of the REST API, with another value of the property `key`.

    `values`: the new values of this property, by column path. Fields without a new value keep theirs. `prefix`: the
    path of the STRUCT that the fields are in, with a dot at the end; empty for top-level columns.
    """
    changed = []
    for field in fields:
        path, new = f"{prefix}{field['name']}", dict(field)
        if path in values:
            new[key] = values[path]
        if field.get("fields"):
            new["fields"] = with_values(field["fields"], key, values, f"{path}.")
        changed.append(new)
    return changed


def _entries(resource: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in (resource.get("labels") or {}).items():
        if not key.startswith(OWN_LABELS):
            yield label_entry(key), str(value)
    for key, value in (resource.get("resourceTags") or {}).items():
        yield f"{RESOURCE_TAG} [{key}]", str(value)
    table_values = {
        FRIENDLY_NAME: resource.get("friendlyName"),
        KMS_KEY: (resource.get("encryptionConfiguration") or {}).get("kmsKeyName"),
        MAX_STALENESS: resource.get("maxStaleness"),
        "default collation": resource.get("defaultCollation"),
        "default rounding mode": resource.get("defaultRoundingMode"),
    }
    yield from ((name, str(value)) for name, value in table_values.items() if value)
    partitioning = resource.get("timePartitioning") or {}
    if resource.get("requirePartitionFilter") or partitioning.get("requirePartitionFilter"):
        yield PARTITION_FILTER, "true"
    constraints = resource.get("tableConstraints") or {}
    key = (constraints.get("primaryKey") or {}).get("columns")
    if key:
        yield PRIMARY_KEY, ", ".join(key)
    for foreign in constraints.get("foreignKeys") or ():
        referenced = foreign["referencedTable"]["tableId"]
        columns = foreign["columnReferences"]
        pairs = (f"{c['referencingColumn']} = {referenced}.{c['referencedColumn']}" for c in columns)
        yield f"foreign key [{foreign.get('name') or referenced}]", ", ".join(pairs)
    yield from _column_entries((resource.get("schema") or {}).get("fields") or (), "")


def _column_entries(fields: Sequence[Mapping[str, Any]], prefix: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        path = f"{prefix}{field['name']}"
        column_values = {
            description_entry(path): field.get("description"),
            f"default value of column [{path}]": field.get("defaultValueExpression"),
            policy_tag_entry(path): ", ".join((field.get("policyTags") or {}).get("names") or ()),
            f"data policy of column [{path}]": ", ".join(p["name"] for p in field.get("dataPolicies") or ()),
            f"collation of column [{path}]": field.get("collation"),
            f"rounding mode of column [{path}]": field.get("roundingMode"),
            f"{TYPE_PARAMETERS} of column [{path}]": _type_parameters(field),
        }
        yield from ((name, str(value)) for name, value in column_values.items() if value)
        yield from _column_entries(field.get("fields") or (), f"{path}.")


def _type_parameters(field: Mapping[str, Any]) -> str:
    return ", ".join(str(field[name]) for name in ("maxLength", "precision", "scale") if field.get(name))
