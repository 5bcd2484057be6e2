"""Parses and applies the parameter `fields`, which selects parts of a response, as in `etag,jobs(id,status/state)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devstack.bigquery.bigquery_errors import Invalid

# By the name of a field, the mask of the field's value. `{}` and `{"*": {}}` select everything.
Mask = dict[str, "Mask"]


def parse_mask(text: str) -> Mask:
    """Raises Invalid for text that is no field selection."""
    mask, rest = _parse_list(text)
    if rest:
        raise Invalid(f"Invalid field selection [{text}]: unexpected [{rest}].")
    return mask


def apply_mask(value: Any, mask: Mask) -> Any:
    """The selected parts of a JSON value. In a list, the mask applies to each element."""
    if not mask or ("*" in mask and not mask["*"]):
        return value
    if isinstance(value, list):
        return [apply_mask(item, mask) for item in value]
    if not isinstance(value, Mapping):
        return value
    inner_masks = {key: mask.get(key, mask.get("*")) for key in value}
    return {key: apply_mask(value[key], inner) for key, inner in inner_masks.items() if inner is not None}


def _parse_list(text: str) -> tuple[Mask, str]:
    """The mask of the list with which the text begins, and the text after the list."""
    mask: Mask = {}
    while True:
        name, text = _parse_name(text)
        branch = mask.setdefault(name, {})
        while text.startswith("/"):
            name, text = _parse_name(text[1:])
            branch = branch.setdefault(name, {})
        if text.startswith("("):
            inner, text = _parse_list(text[1:])
            if not text.startswith(")"):
                raise Invalid("Invalid field selection: a closing parenthesis is missing.")
            _unite(branch, inner)
            text = text[1:]
        else:
            branch["*"] = {}
        if not text.startswith(","):
            return mask, text
        text = text[1:]


def _unite(mask: Mask, other: Mask) -> None:
    """Add to `mask` what `other` selects."""
    for name, inner in other.items():
        _unite(mask.setdefault(name, {}), inner)


def _parse_name(text: str) -> tuple[str, str]:
    """The name with which the text begins, and the text after the name."""
    length = next((position for position, character in enumerate(text) if character in ",/()"), len(text))
    if length == 0:
        raise Invalid(f"Invalid field selection: a field's name is missing before [{text}].")
    return text[:length].strip(), text[length:]
