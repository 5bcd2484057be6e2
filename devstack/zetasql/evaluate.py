"""Evaluates a SELECT with ZetaSQL, Google's reference implementation of GoogleSQL.

Tests compare the results with those of the stand-in. There are no tables, so a query must contain its rows (WITH,
UNNEST). The time zone is UTC, BigQuery's default.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import grpc

from devstack.zetasql.install import ZetaSqlUnavailable
from devstack.zetasql.zetasql_service import Service, running_service

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
# A NUMERIC has 38 digits; Python's default context rounds to 28.
_NUMERIC_CONTEXT = Context(prec=38)


class EvaluationRefused(Exception):
    """ZetaSQL returned an error for the query. The message is ZetaSQL's."""


@dataclass(frozen=True)
class Evaluation:
    """The result of a query: the names and GoogleSQL types of its columns, and its rows.

    A STRUCT value is a tuple of its fields' values.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class ReferenceEvaluator:
    """Evaluates queries with a running ZetaSQL service."""

    service: Service

    def evaluate(self, sql: str) -> Evaluation:
        """The result of a query.

        Raises EvaluationRefused if ZetaSQL returns an error, and ZetaSqlUnavailable if its service has ended.
        """
        messages, stub = self.service.messages, self.service.stub
        try:
            options = stub.GetAnalyzerOptions(messages.AnalyzerOptionsRequest())
            options.language_options.CopyFrom(self.service.language)
            options.default_timezone = "UTC"
            request = messages.EvaluateQueryRequest(sql=sql, options=options)
            request.simple_catalog.builtin_function_options.language_options.CopyFrom(self.service.language)
            response = stub.EvaluateQuery(request)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise ZetaSqlUnavailable(f"ZetaSQL does not answer: [{error.details()}].") from error
            raise EvaluationRefused(str(error.details())) from error
        columns = response.prepared.columns
        kinds = importlib.import_module("zetasql.public.type_pb2").TypeKind
        return Evaluation(
            tuple(column.name for column in columns),
            tuple(_type_name(column.type, kinds) for column in columns),
            tuple(
                tuple(_value(cell, column.type, kinds) for cell, column in zip(row.cell, columns, strict=True))
                for row in response.content.table_data.row
            ),
        )


def _type_name(kind: Any, kinds: Any) -> str:
    if kind.type_kind == kinds.TYPE_ARRAY:
        return f"ARRAY<{_type_name(kind.array_type.element_type, kinds)}>"
    if kind.type_kind == kinds.TYPE_STRUCT:
        fields = (f"{field.field_name} {_type_name(field.field_type, kinds)}" for field in kind.struct_type.field)
        return f"STRUCT<{', '.join(text.strip() for text in fields)}>"
    name = str(kinds.Name(kind.type_kind)).removeprefix("TYPE_")
    return {"DOUBLE": "FLOAT64"}.get(name, name)


def _value(value: Any, kind: Any, kinds: Any) -> Any:
    value_field = value.WhichOneof("value")
    if value_field is None:
        return None
    if value_field == "array_value":
        return [_value(element, kind.array_type.element_type, kinds) for element in value.array_value.element]
    if value_field == "struct_value":
        pairs = zip(value.struct_value.field, kind.struct_type.field, strict=True)
        return tuple(_value(item, field.field_type, kinds) for item, field in pairs)
    return _scalar(getattr(value, value_field), value_field)


def _scalar(content: Any, value_field: str) -> Any:
    match value_field:
        case "date_value":
            return _EPOCH_DAY + timedelta(days=content)
        case "timestamp_value":
            return _EPOCH + timedelta(seconds=content.seconds, microseconds=content.nanos // 1000)
        case "datetime_value":
            return _civil(content.bit_field_datetime_seconds, content.nanos // 1000)
        case "time_value":
            seconds, microseconds = content >> 30, (content & ((1 << 30) - 1)) // 1000
            return time((seconds >> 12) & 31, (seconds >> 6) & 63, seconds & 63, microseconds)
        case "numeric_value":
            return Decimal(int.from_bytes(content, "little", signed=True)).scaleb(-9, _NUMERIC_CONTEXT)
        case _:
            return content


def _civil(bits: int, microsecond: int) -> datetime:
    """The date and time in ZetaSQL's bit field.

    From the lowest bit on, seconds and minutes have 6 bits each, hours and days 5 each, the month 4, and the year the
    rest.
    """
    day = date(bits >> 26, (bits >> 22) & 15, (bits >> 17) & 31)
    return datetime.combine(day, time((bits >> 12) & 31, (bits >> 6) & 63, bits & 63, microsecond))


@contextmanager
def running_evaluator() -> Iterator[ReferenceEvaluator]:
    """Yield an evaluator, whose ZetaSQL service runs until the end of the `with` block."""
    with running_service() as service:
        yield ReferenceEvaluator(service)
