"""Runs the ZetaSQL service as a child process on a free local port, and connects to it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from devstack.stack.ports import any_free_port
from devstack.zetasql.install import Installation, ZetaSqlUnavailable, install

START_TIMEOUT_S = 30


@dataclass(frozen=True)
class Service:
    """A running ZetaSQL service.

    `stub`: has a method for each of its calls. `messages`: the module of its request classes. `language`: its language
    options, with all features enabled.
    """

    stub: Any
    messages: Any
    language: Any


@contextmanager
def running_service() -> Iterator[Service]:
    """Start the service, wait until it answers, yield it, and stop it at the end of the `with` block.

    Raises ZetaSqlUnavailable if it cannot be installed or started.
    """
    installation = install()
    with _process(installation) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=START_TIMEOUT_S)
        except grpc.FutureTimeoutError as error:
            raise ZetaSqlUnavailable(f"[{installation.binary}] did not answer within [{START_TIMEOUT_S}] s.") from error
        yield _connect(installation, channel)


def _connect(installation: Installation, channel: grpc.Channel) -> Service:
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
    return Service(stub, messages, language)


@contextmanager
def _process(installation: Installation) -> Iterator[int]:
    """Run the service's process during the `with` block, and yield the port on which it listens."""
    port = any_free_port()
    try:
        process = subprocess.Popen(
            [str(installation.binary), "127.0.0.1", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise ZetaSqlUnavailable(f"[{installation.binary}] cannot be started: [{error}].") from error
    try:
        yield port
    finally:
        process.kill()  # it has no state, and a regular shutdown would wait for open channels
        process.wait()
