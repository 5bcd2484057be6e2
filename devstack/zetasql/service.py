"""Runs ZetaSQL, Google's reference implementation of GoogleSQL, as a child process on a free local port.

Tests check with it that statements and scripts are GoogleSQL, and compare its results with those of the stand-in. There
are no tables, so a query must contain its rows (WITH, UNNEST). The time zone is UTC, BigQuery's default.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import grpc

from devstack.stack.ports import any_free_port
from devstack.zetasql.install import Installation, ZetaSqlUnavailable, install

START_TIMEOUT_S = 30
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
# A NUMERIC has 38 digits; Python's default context rounds to 28.
_NUMERIC_CONTEXT = Context(prec=38)


@dataclass(frozen=True)
class Evaluation:
    """The result of a query: the names and GoogleSQL types of its columns, and its rows.

    A STRUCT value is a tuple of its fields' values.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class ZetaSql:
    """A running ZetaSQL service.

    `stub`: has a method for each of its calls. `messages`: the module of its request classes. `language`: its language
    options, with all features enabled.
    """

    stub: Any
    messages: Any
    language: Any

    def check(self, sql: str) -> str | None:
        """The first syntax error of a statement or script, with its position; None if the parser accepts the text."""
        request = self.messages.ParseRequest(sql_statement=sql, options=self.language, allow_script=True)
        try:
            self.stub.Parse(request)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                raise
            return str(error.details())
        return None

    def evaluate(self, sql: str) -> Evaluation:
        """The result of a query. Raises grpc.RpcError if ZetaSQL returns an error for it."""
        options = self.stub.GetAnalyzerOptions(self.messages.AnalyzerOptionsRequest())
        options.language_options.CopyFrom(self.language)
        options.default_timezone = "UTC"
        request = self.messages.EvaluateQueryRequest(sql=sql, options=options)
        request.simple_catalog.builtin_function_options.language_options.CopyFrom(self.language)
        response = self.stub.EvaluateQuery(request)
        columns = response.prepared.columns
        kinds = importlib.import_module("zetasql.public.type_pb2").TypeKind
        return Evaluation(
            tuple(column.name for column in columns),
            tuple(_type_name(column.type, kinds) for column in columns),
            tuple(
                tuple(_value(cell, column.type) for cell, column in zip(row.cell, columns, strict=True))
                for row in response.content.table_data.row
            ),
        )


@contextmanager
def running_zetasql() -> Iterator[ZetaSql]:
    """Start the service, wait until it answers, yield it, and stop it at the end of the `with` block.

    Raises ZetaSqlUnavailable if it cannot be installed or started.
    """
    installation, address = install(), f"127.0.0.1:{any_free_port()}"
    command = [str(installation.binary), *address.split(":")]
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise ZetaSqlUnavailable(f"[{installation.binary}] cannot be started: [{error}].") from error
    try:
        with grpc.insecure_channel(address) as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=START_TIMEOUT_S)
            except grpc.FutureTimeoutError as error:
                text = f"[{installation.binary}] did not answer within [{START_TIMEOUT_S}] s."
                raise ZetaSqlUnavailable(text) from error
            yield _connect(installation, channel)
    finally:
        process.kill()  # it has no state, and a regular shutdown would wait for open channels
        process.wait()


def _connect(installation: Installation, channel: grpc.Channel) -> ZetaSql:
    if str(installation.python_path) not in sys.path:
        sys.path.append(str(installation.python_path))
    messages = importlib.import_module("local_service_pb2")
    stub = importlib.import_module("local_service_pb2_grpc").ZetaSqlLocalServiceStub(channel)
    language = stub.GetLanguageOptions(messages.LanguageOptionsRequest(maximum_features=True))
    options = importlib.import_module("zetasql.public.options_pb2")
    # PRODUCT_EXTERNAL is BigQuery's SQL, which has INT64 and FLOAT64, but neither INT32 nor DOUBLE.
    language.product_mode = options.PRODUCT_EXTERNAL
    # `maximum_features` lacks CREATE PROCEDURE ... LANGUAGE PYTHON, which BigQuery has.
    if options.FEATURE_NON_SQL_PROCEDURE not in language.enabled_language_features:
        language.enabled_language_features.append(options.FEATURE_NON_SQL_PROCEDURE)
    return ZetaSql(stub, messages, language)


def _type_name(kind: Any, kinds: Any) -> str:
    if kind.type_kind == kinds.TYPE_ARRAY:
        return f"ARRAY<{_type_name(kind.array_type.element_type, kinds)}>"
    if kind.type_kind == kinds.TYPE_STRUCT:
        fields = (f"{field.field_name} {_type_name(field.field_type, kinds)}" for field in kind.struct_type.field)
        return f"STRUCT<{', '.join(text.strip() for text in fields)}>"
    name = str(kinds.Name(kind.type_kind)).removeprefix("TYPE_")
    return {"DOUBLE": "FLOAT64"}.get(name, name)


def _value(value: Any, kind: Any) -> Any:
    value_field = value.WhichOneof("value")
    if value_field is None:
        return None
    if value_field == "array_value":
        return [_value(element, kind.array_type.element_type) for element in value.array_value.element]
    if value_field == "struct_value":
        pairs = zip(value.struct_value.field, kind.struct_type.field, strict=True)
        return tuple(_value(item, field.field_type) for item, field in pairs)
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
