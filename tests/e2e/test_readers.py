"""Readers see whole generations, in order, whatever publishes do: they fail, die, are replayed and rolled back."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import DedupCloneError
from dedup_clone.settings.feed import read_feed
from dedup_clone.settings.table_settings import ColumnSettings
from devstack.stack.layout import CHECKOUT
from testkit.feed_against_oracle import FeedAgainstOracle
from testkit.feed_on_stand_in import FeedOnStandIn, expected
from testkit.oracle import OracleDelivery, OracleState, OracleTable
from testkit.server_clients import bigquery_client, open_clients
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.stack_snapshots import COLUMNS, Row, row
from tests.e2e.feeds import RETENTION_DAY, TODAY, YESTERDAY
from tests.e2e.readers import Seen, Swap, reading, right_answers, wrong_answers

pytestmark = pytest.mark.timeout(3600)

PRODUCTS = 200
TABLE = OracleTable("date", "update_id", ("date", "product_id", "store_id", "attribute_id"), ("attr_value",))
long_run = partial(pytest.param, marks=pytest.mark.soak)
Clients = tuple[Storage, BigQuery]


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    with open_clients(tmp_path) as opened:
        yield opened


def numbered_row(snapshot_id: int, product: int, day: date) -> Row:
    """A row whose value is different for each snapshot and each product."""
    return row(day, product, snapshot_id * 1000 + product, snapshot_id)


class Publisher:
    """Publishes, replays and rolls back `feed`, and records each swap with the answers that readers must get."""

    def __init__(self, feed: FeedOnStandIn) -> None:
        self.feed = feed
        self.make_row = numbered_row
        self.columns: tuple[str, ...] = COLUMNS
        self.swaps: list[Swap] = []
        self.landed: dict[str, OracleDelivery] = {}
        self.backlog: list[OracleDelivery] = []
        self._state = self._next = OracleState(TABLE)
        self._states: dict[int, OracleState] = {}
        self._swap = feed.swap
        feed.swap = self._timed_swap

    def _timed_swap(self, attempt: Any, *arguments: Any) -> None:
        began = time.monotonic()
        self._swap(attempt, *arguments)
        self._state = self._states[attempt.generation] = self._next
        answers = right_answers(list(self._state.rows.values()), self.columns)
        self.swaps.append(Swap(attempt.generation, answers, began, time.monotonic()))

    @property
    def next_id(self) -> int:
        return len(self.landed) + 1

    def land(self) -> str:
        """Land one more snapshot. Consecutive snapshots lack different products. Returns the delivery's name."""
        number = self.next_id
        products = [product for product in range(PRODUCTS) if product != number % PRODUCTS]
        rows = [self.make_row(number, product, day) for day in (YESTERDAY, TODAY) for product in products]
        name = self.feed.land(number, rows)
        self.landed[name] = OracleDelivery(number, rows)
        self.backlog.append(self.landed[name])
        return name

    def publish(self, name: str = "", *, commits: bool = True, **conf: Any) -> None:
        """Publish a delivery together with the whole backlog. `name`: empty to land one."""
        name = name or self.land()
        replayed = [self.landed[name]] if self.landed[name] not in self.backlog else []
        applied = sorted([*self.backlog, *replayed], key=lambda delivery: delivery.snapshot_id)
        self._next = self._state.apply(applied, RETENTION_DAY)
        attempt, checked = self.feed.publish_to_check(name, run_id=f"{name}-{len(self.swaps)}", **conf)
        self.feed.swap(attempt, checked)
        self.backlog.clear()
        if commits:
            self.feed.commit(attempt)
            self.assert_target()

    def replay(self, name: str) -> None:
        self.publish(name, replay=True, reason="once more")

    def roll_back(self, generation: int) -> None:
        """Make the content of a generation live again. The backlog goes on waiting."""
        self._next = self._states[generation]
        self.feed.roll_back(generation, run_id=f"rollback-{len(self.swaps)}")
        self.assert_target()

    def assert_target(self) -> None:
        assert Counter(self.feed.rows()) == Counter(expected(*self._state.rows.values()))


@contextmanager
def readers_see_whole_generations(publisher: Publisher, per_second: float) -> Iterator[None]:
    """Read in the `with` block, and check all answers at its end. Something must be published before."""
    url = str(publisher.feed.bigquery._connection.API_BASE_URL)
    with reading(partial(bigquery_client, url), f"warehouse.{publisher.feed.feed.target}", per_second) as seen:
        yield
    assert [wrong for answers in seen for wrong in wrong_answers(answers, publisher.swaps)] == []
    assert sum(map(len, seen)) >= len(publisher.swaps)


class Faults:
    """What goes wrong between two publishes, by method. The next publish must cope with it."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.feed = publisher.feed

    def _fail(self, match: dict[str, str], **fault: Any) -> None:
        self.feed.add_fault({"match": match, "effect": "error", **fault})
        with pytest.raises((DedupCloneError, GoogleAPICallError)):
            self.publisher.publish()
        self.feed.clear_faults()

    def fail_in_load(self) -> None:
        self._fail({"job_type": "load"})

    def fail_in_swap(self) -> None:
        """The client does not retry after this error."""
        self._fail({"job_id": "-swap-"}, reason="invalidQuery")

    def roll_back(self) -> None:
        self.publisher.roll_back(self.publisher.swaps[-2].generation)

    def refuse_delivery(self) -> None:
        """The dedup job refuses a delivery. If no other delivery waits, the step fails."""
        number, name = self.publisher.next_id, self.publisher.land()
        self.feed.spoil(number)
        self.publisher.backlog.remove(self.publisher.landed[name])
        attempt = self.feed.resolve(name)
        with nullcontext() if self.publisher.backlog else pytest.raises(DedupCloneError):
            self.feed.deduplicate(attempt)

    def die_before_commit(self) -> None:
        """The next run has to complete it."""
        self.publisher.publish(commits=False)

    def fail_queries(self) -> None:
        """BigQuery's client retries such queries by itself."""
        match = {"method": "POST", "path": "/queries$"}
        self.feed.add_fault({"match": match, "effect": "error", "status": 503, "times": 5})

    def die_after_load(self) -> None:
        """The load is slow. The next run has to discard it."""
        self.feed.delay_jobs("-load-", 0.5)
        self.feed.publish_to_check(self.publisher.land())


@pytest.mark.parametrize(("swaps", "per_second"), [(5, 10), long_run(50, 50)])
def test_while_publishes_fail_die_and_are_rolled_back(clients: Clients, swaps: int, per_second: float) -> None:
    publisher = Publisher(FeedOnStandIn(read_feed(CHECKOUT / "dags/feeds/worked_example.yaml"), *clients))
    faults = Faults(publisher)
    steps = (
        faults.fail_in_load,
        faults.roll_back,
        faults.refuse_delivery,
        faults.die_before_commit,
        faults.fail_queries,
        faults.die_after_load,
        faults.fail_in_swap,
    )
    publisher.publish()
    with readers_see_whole_generations(publisher, per_second):
        for step in cycle(steps):
            publisher.publish()
            if len(publisher.swaps) >= swaps:
                break
            step()


@pytest.mark.parametrize(("snapshots", "per_second"), [(3, 10), long_run(10, 50)])
def test_while_snapshots_are_replayed_in_any_order(clients: Clients, snapshots: int, per_second: float) -> None:
    """Replays of what is live change nothing. After a rollback to the first generation they bring all of it back."""
    publisher = Publisher(FeedOnStandIn(read_feed(CHECKOUT / "dags/feeds/worked_example.yaml"), *clients))
    chance = random.Random(1)
    publisher.publish()
    with readers_see_whole_generations(publisher, per_second):
        for _ in range(snapshots - 1):
            publisher.publish()
        published, names = list(publisher.swaps), list(publisher.landed)
        for name in chance.sample(names, len(names)):
            publisher.replay(name)
        earlier = [swap.generation for swap in published[-2:-5:-1]]
        for generation in (*earlier, published[-1].generation, published[0].generation):
            publisher.roll_back(generation)
        for name in chance.sample(names[1:], len(names) - 1):
            publisher.replay(name)
    assert publisher.swaps[-1].answers == published[-1].answers


@pytest.mark.soak
def test_while_columns_are_added_and_get_wider(clients: Clients) -> None:
    """No query may fail. Whole rows have all columns and values of one generation."""
    with SparkDedupProcess(clients[0]) as dedup:
        feed = FeedAgainstOracle(clients, read_feed(CHECKOUT / "dags/feeds/worked_example.yaml"))
        feed.dedup = dedup
        publisher = Publisher(feed)
        publisher.publish()
        with readers_see_whole_generations(publisher, 50):
            for _ in range(6):
                publisher.publish()
            name = publisher.land()  # still lacks the column
            added = ColumnSettings.model_validate({"name": "doubled", "type": "INT64", "since": publisher.next_id})
            feed.declare_columns([*feed.feed.table.columns, added])
            publisher.columns = (*COLUMNS, "doubled")
            publisher.publish(name)
            publisher.make_row = lambda *number: {**numbered_row(*number), "doubled": 2 * number[1]}
            for _ in range(6):
                publisher.publish()
            wider = {"attr_value": {"type": "NUMERIC"}}
            feed.declare_columns([c.model_copy(update=wider.get(c.name, {})) for c in feed.feed.table.columns])
            publisher.make_row = lambda *number: {
                **numbered_row(*number),
                "doubled": 2 * number[1],
                "attr_value": number[0] + Decimal("0.25"),
            }
            for _ in range(6):
                publisher.publish()


@pytest.mark.parametrize(
    ("values", "is_right"),
    [((10, 20), True), ((20, 10), False), ((15,), False), ((None,), False)],
    ids=["in order", "back in time", "mixed", "failed"],
)
def test_wrong_answers_are_found(values: tuple[int | None, ...], is_right: bool) -> None:
    def answers(value: int | None) -> Any:
        return right_answers([{"date": 1, "product_id": 1, "update_id": 1, "attr_value": value}], ("attr_value",))

    swaps = [Swap(1, answers(10), 0, 1), Swap(2, answers(20), 10, 20)]  # the second takes from 10 to 20
    seen = [Seen(0, 11 + n, 12 + n, answers(v or 0)[0], "" if v else "404") for n, v in enumerate(values)]
    assert (wrong_answers(seen, swaps) == []) is is_right
    assert wrong_answers([Seen(0, 25, 26, answers(10)[0])], swaps), "not live any more"
