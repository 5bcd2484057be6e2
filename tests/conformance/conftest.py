"""Fixtures `bigquery`, `storage` and `sandbox`: of the stand-in and fake-gcs-server, or of a live project by options.

`pytest tests/conformance -m probe --project P --location L` is `python -m deploy probe`: it works in a
throwaway dataset and two buckets, costs a few cents, and writes a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.api_core.exceptions import MethodNotImplemented
from google.cloud import bigquery as google_bigquery
from google.cloud import storage as google_storage

from bigquery_standin.client import Control
from testkit.local_servers import start_fake_gcs, start_stand_in
from testkit.server_clients import control_of
from tests.conformance.rules import Result, as_markdown
from tests.conformance.sandbox import BUDGET_BYTES, Sandbox, Servers, live_servers, local_servers, throwaway
from tests.request_validator import RequestValidator
from tests.request_validator import request_validator as request_validator

FOLDER = Path(__file__).parent
LIVE_TIMEOUT_S = 1800
WRITE_API = "BIGQUERY_STORAGE_EMULATOR_HOST"
RESULTS = pytest.StashKey[list[Result]]()
BILLED = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "the rules of BigQuery and Cloud Storage (tests/conformance)")
    group.addoption("--project", help="the project in which to try the rules; by default local servers")
    group.addoption("--location", help="location of the throwaway dataset and buckets")
    group.addoption("--policy-tag", help="resource name of a policy tag, to try what depends on one")
    group.addoption("--report", type=Path, help="write the report to this file instead of printing it")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "probe: a rule that can be tried on a live project, too")
    project, location, report = (config.getoption(name, None) for name in ("project", "location", "report"))
    if bool(project) != bool(location):
        raise pytest.UsageError("--project and --location go together")
    config.stash[RESULTS], config.stash[BILLED] = [], ""
    if report is not None:
        try:
            report.touch()
        except OSError as error:
            raise pytest.UsageError(f"the report cannot be written to [{report}]: {error.strerror}") from error


def is_live(config: pytest.Config) -> bool:
    return bool(config.getoption("project", None))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of a live run what is no probe, and expect of local servers what is known to differ."""
    here = [item for item in items if item.path.is_relative_to(FOLDER)]
    for item in here:
        mark = item.get_closest_marker("probe")
        if is_live(config):
            item.add_marker(pytest.mark.timeout(LIVE_TIMEOUT_S))
            if mark is None:
                items.remove(item)
        elif mark is not None and mark.kwargs["local"]:
            differs = (MethodNotImplemented, pytest.fail.Exception)
            item.add_marker(pytest.mark.xfail(reason=mark.kwargs["local"], raises=differs, strict=True))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    yield
    ended = call.when == "call" or (call.when == "setup" and call.excinfo is not None)
    if ended and item.get_closest_marker("probe") is not None:
        sandbox = getattr(item, "funcargs", {}).get("sandbox")
        notes = sandbox.notes if sandbox else []
        error = call.excinfo.value if call.excinfo else None
        item.config.stash[RESULTS].append(Result.of(item, error, notes))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the report of a live run, and of any run that names a file."""
    report: Path | None = config.getoption("report", None)
    if not config.stash[RESULTS] or not (report or is_live(config)):
        return
    server = f"project {config.getoption('project')}" if is_live(config) else "the stand-in"
    text = as_markdown(config.stash[RESULTS], server, config.stash[BILLED])
    if report is None:
        terminalreporter.write(text)
    else:
        report.write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of the stand-in and of fake-gcs-server."""
    with (
        start_fake_gcs(tmp_path_factory.mktemp("gcs")) as gcs,
        start_stand_in(tmp_path_factory.mktemp("stand_in"), gcs) as warehouse,
    ):
        yield warehouse, gcs


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Servers:
    option = request.config.getoption
    if is_live(request.config):
        return live_servers(option("project"), option("location"), option("policy_tag"))
    return local_servers(request.getfixturevalue("addresses"))


@pytest.fixture(scope="session")
def sandbox_of_session(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Sandbox]:
    started = datetime.now(UTC)
    with throwaway(servers) as sandbox:
        if servers.control is None:
            capture = request.config.pluginmanager.getplugin("capturemanager")
            with capture.global_and_fixture_disabled():
                print(f"\nThe probe works in [{sandbox.dataset}], and deletes it at the end. If it is killed, run:")
                print(f"  {sandbox.clean_up_command}")
                print(f"It starts no more queries after they have billed {BUDGET_BYTES >> 30} GiB.", flush=True)
        yield sandbox
        jobs = servers.bigquery.list_jobs(min_creation_time=started, state_filter="done")
        billed = sum(getattr(job, "total_bytes_billed", 0) or 0 for job in jobs)
        request.config.stash[BILLED] = f"The jobs of this account billed {billed >> 20} MiB meanwhile."


@pytest.fixture
def write_api(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the stand-in's Storage Write API in the environment."""
    if servers.control is not None:
        monkeypatch.setenv(WRITE_API, control_of(servers.bigquery).write_api())


@pytest.fixture
def sandbox(sandbox_of_session: Sandbox, write_api: None) -> Sandbox:
    """The throwaway dataset and buckets of this run."""
    sandbox_of_session.notes.clear()
    return sandbox_of_session


@pytest.fixture
def bigquery(sandbox: Sandbox) -> google_bigquery.Client:
    return sandbox.client


@pytest.fixture
def storage(sandbox: Sandbox) -> google_storage.Client:
    return sandbox.storage


@pytest.fixture
def control(servers: Servers) -> Iterator[Control]:
    """The faults and grants of the stand-in, which are taken back at the end."""
    assert servers.control is not None
    yield servers.control
    servers.control.clear_faults()
    servers.control.clear_grants()


@pytest.fixture(autouse=True)
def requests_are_well_formed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the requests of probes with Google's description of the APIs: local servers may accept more than Google."""
    if request.node.get_closest_marker("probe") is None or is_live(request.config):
        yield
        return
    validator: RequestValidator = request.getfixturevalue("request_validator")
    validator.faults.clear()
    yield
    assert validator.faults == []
