"""The reference in docs/stand-in.md matches the code."""

from __future__ import annotations

from typing import Any, get_args

from devstack.bigquery.reference import DOCUMENT, STATEMENTS, generated_part, render
from devstack.bigquery.rest.application import HANDLERS
from devstack.bigquery.rest.discovery_document import google_document, parameters_of, schema_of
from devstack.bigquery.rest.supported_methods import METHODS, ONLY_VALUES, READ_ONLY_FIELDS
from devstack.bigquery.sql.statements import Statement


def test_document_is_up_to_date() -> None:
    assert generated_part(DOCUMENT.read_text()) == render(), "run: python -m devstack.bigquery.reference"


def test_every_statement_is_in_the_reference() -> None:
    assert set(STATEMENTS) == set(get_args(Statement))


def test_every_listed_method_has_a_handler_and_is_one_of_bigquery() -> None:
    assert {method.id for method in METHODS} == set(HANDLERS)
    for method in METHODS:
        resource, name = method.id.split(".")
        google = google_document()["resources"][resource]["methods"][name]
        assert google["httpMethod"] == method.http
        assert method.parameters - parameters_of(method.id) <= {"projection"}


def test_every_listed_field_exists_in_bigquery() -> None:
    for method in METHODS:
        if method.body is not None:
            for field in method.fields:
                assert _exists(method.body, field.removesuffix(".*").split(".")), f"{method.id}: {field}"
            assert READ_ONLY_FIELDS[method.body] <= set(schema_of(method.body)["properties"])


def test_restricted_fields_are_listed_fields() -> None:
    listed = {field for method in METHODS for field in method.fields}
    assert set(ONLY_VALUES) <= listed


def _exists(schema: str, path: list[str]) -> bool:
    return _is_property(schema_of(schema)["properties"], path)


def _is_property(properties: dict[str, Any], path: list[str]) -> bool:
    """A property is described in place, or refers to another schema."""
    if path[0] not in properties:
        return False
    found = properties[path[0]]
    reference = found.get("$ref") or found.get("items", {}).get("$ref")
    if len(path) == 1 or reference is None:
        return len(path) == 1 or _is_property(found.get("properties", {}), path[1:])
    return _exists(reference, path[1:])
