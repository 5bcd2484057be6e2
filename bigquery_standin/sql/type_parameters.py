"""Checks the parameters of STRING(L), BYTES(L) and NUMERIC(P, S), converts them to and from the REST API, and fits
values to them.

Sources: BigQuery's "Data types", parameterized data types; REST resource tables, `maxLength`, `precision` and `scale`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from bigquery_standin.bigquery_errors import Invalid

Parameters = tuple[int, ...]  # the length, or precision and scale; empty without parameters
TYPES_WITH_LENGTH = ("STRING", "BYTES")
_MAXIMUM_SCALE, _DIGITS_BEFORE_POINT = 9, 29
_EXACT = Context(prec=80)  # Python's default has fewer digits than a NUMERIC


def checked_parameters(type_name: str, given: Parameters) -> Parameters:
    """The parameters of a type; NUMERIC(P) gets the scale 0. Raises Invalid if the type cannot have them."""
    if not given:
        return ()
    if type_name in TYPES_WITH_LENGTH and len(given) == 1 and given[0] > 0:
        return given
    if type_name == "NUMERIC" and len(given) <= 2:
        precision, scale = given if len(given) == 2 else (given[0], 0)
        if 0 <= scale <= _MAXIMUM_SCALE and max(1, scale) <= precision <= scale + _DIGITS_BEFORE_POINT:
            return precision, scale
    text = ", ".join(map(str, given))
    raise Invalid(f"{type_name}({text}) is not a type: expected STRING(L), BYTES(L) or NUMERIC(P[, S]) within limits.")


def parameters_from_api(type_name: str, api: Mapping[str, Any]) -> Parameters:
    """The parameters in a TableFieldSchema. Raises Invalid for those that the type cannot have."""
    names = [name for name in ("maxLength", "precision", "scale") if api.get(name) is not None]
    if names not in ([], ["maxLength"], ["precision"], ["precision", "scale"]) or (
        "maxLength" in names and type_name not in TYPES_WITH_LENGTH
    ):
        raise Invalid(f"Schema field [{api.get('name')}] of type [{type_name}] cannot have [{', '.join(names)}].")
    try:
        numbers = tuple(int(api[name]) for name in names)
    except ValueError as error:
        raise Invalid(f"Schema field [{api.get('name')}]: [{', '.join(names)}] must be whole numbers.") from error
    return checked_parameters(type_name, numbers)


def parameters_to_api(type_name: str, parameters: Parameters) -> dict[str, str]:
    """The properties of a TableFieldSchema for the parameters."""
    if not parameters:
        return {}
    names = ("maxLength",) if type_name in TYPES_WITH_LENGTH else ("precision", "scale")
    return {name: str(value) for name, value in zip(names, parameters, strict=True)}


def with_parameters(type_name: str, parameters: Parameters) -> str:
    """The type in SQL: `NUMERIC(10, 2)`."""
    return f"{type_name}({', '.join(map(str, parameters))})" if parameters else type_name


def stored_scalar(type_name: str, parameters: Parameters, value: Any) -> Any:
    """The value as a column of the type stores it: rounded to the scale. Raises ValueError if it does not fit."""
    if not parameters or value is None:
        return value
    if type_name in TYPES_WITH_LENGTH:
        if len(value) > parameters[0]:
            raise ValueError(
                f"{with_parameters(type_name, parameters)} has maximum length {parameters[0]} but got a value with "
                f"length {len(value)}"
            )
        return value
    precision, scale = parameters
    unit = Decimal(1).scaleb(-scale)
    rounded = Decimal(value).quantize(unit, ROUND_HALF_UP, _EXACT)
    limit = Decimal(10) ** (precision - scale) - unit
    if abs(rounded) > limit:
        raise ValueError(
            f"{with_parameters(type_name, parameters)} has precision {precision} and scale {scale} but got a value "
            f"that is not in range of [-{limit}, {limit}]"
        )
    return rounded


def is_less_restrictive(type_name: str, before: Parameters, after: Parameters) -> bool:
    """Whether `after` allows each value that `before` allows.

    Source: BigQuery's "Data definition language", ALTER COLUMN SET DATA TYPE.
    """
    if not after or before == after:
        return True
    if not before:
        return False
    if type_name in TYPES_WITH_LENGTH:
        return after[0] >= before[0]
    return after[1] >= before[1] and after[0] - after[1] >= before[0] - before[1]
