"""One real stack for the session: fake-gcs-server, the stand-in and Airflow, in a folder of its own, always stopped."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

# Otherwise a failed assertion in these modules would not say what it compared.
pytest.register_assert_rewrite("testkit.stack", "testkit.stack_runs", "tests.e2e.landed_deliveries")

from testkit.running_stack import running_stack  # noqa: E402 - rewritten at their import
from testkit.stack import Stack  # noqa: E402 - rewritten at their import
from tests.e2e.alerts import Watchdog  # noqa: E402
from tests.e2e.feeds import ALERTS, add_feeds  # noqa: E402
from tests.e2e.landed_deliveries import Deliveries  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move tests with a stack of their own to the front: once the shared stack runs, it runs until the end."""
    items.sort(key=lambda item: "own_stack" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stack]:
    is_soak = any(item.get_closest_marker("soak") for item in request.session.items)
    with running_stack(tmp_path_factory.mktemp("stack") / "local", partial(add_feeds, with_soak=is_soak)) as stack:
        yield stack


@pytest.fixture(scope="session")
def watchdog(stack: Stack) -> Watchdog:
    return Watchdog(stack, stack.layout.local / ALERTS)


@pytest.fixture(scope="session")
def deliveries(stack: Stack) -> Deliveries:
    return Deliveries(stack)
