"""Parses and applies the parameter `fields`, which selects parts of a response, as in `etag,jobs(id,status/state)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from devstack.bigquery.bigquery_errors import Invalid

Mask = dict[str, "Mask"]  # an empty mask selects everything below


def parse_mask(text: str) -> Mask:
    mask, rest = _parse_list(text)
    if rest:
        raise Invalid(f"Invalid field selection [{text}]: unexpected [{rest}].")
    return mask


def apply_mask(value: Any, mask: Mask) -> Any:
    if not mask or ("*" in mask and not mask["*"]):
        return value
    if isinstance(value, list):
        return [apply_mask(item, mask) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {key: apply_mask(item, selected) for key, item in value.items() for selected in _selected(mask, key)}


def _selected(mask: Mask, key: str) -> Iterator[Mask]:
    inner = mask.get(key, mask.get("*"))
    if inner is not None:
        yield inner


def _parse_list(text: str) -> tuple[Mask, str]:
    mask: Mask = {}
    while True:
        name, text = _parse_name(text)
        branch: Mask = {}
        mask[name] = branch
        while text.startswith("/"):
            name, text = _parse_name(text[1:])
            branch[name] = branch = {}
        if text.startswith("("):
            inner, text = _parse_list(text[1:])
            if not text.startswith(")"):
                raise Invalid("Invalid field selection: a closing parenthesis is missing.")
            branch.update(inner)
            text = text[1:]
        if not text.startswith(","):
            return mask, text
        text = text[1:]


def _parse_name(text: str) -> tuple[str, str]:
    length = next((i for i, sign in enumerate(text) if sign in ",/()"), len(text))
    if length == 0:
        raise Invalid(f"Invalid field selection: a field's name is missing before [{text}].")
    return text[:length].strip(), text[length:]
