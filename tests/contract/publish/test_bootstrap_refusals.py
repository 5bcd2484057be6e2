"""What a bootstrap shows before it begins, and which tables it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from google.api_core.exceptions import Forbidden
from google.cloud import bigquery
from google.cloud.bigquery.table import PrimaryKey, TableConstraints

from dedup_clone.contract.errors import BootstrapRefused, ConfigurationError
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.bootstrap.existing_export import export_existing
from dedup_clone.publish.bootstrap.existing_table_problems import table_problems
from dedup_clone.publish.bootstrap.resolve_bootstrap import resolve_bootstrap
from dedup_clone.publish.records.attempt_records import read_check_results
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import ColumnSettings, PolicySettings
from dedup_clone.state.ledger import Outcome
from dedup_clone.warehouse.metadata import Policies
from dedup_clone.warehouse.table_options import policy_tag_entry
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from tests.contract.publish import bootstrap_steps as steps
from tests.contract.publish.bootstrap_steps import MAINTAINED, SNAPSHOT_7
from tests.shared.stand_in_client import FINE_GRAINED_READ, STAND_IN_USER, Control

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
COLUMNS = "date DATE, product_id INT64, store_id INT64, attribute_id INT64, attr_value INT64, update_id INT64"


def test_the_preview_tells_what_would_be_exported_loaded_and_billed(maintained: FeedOnStandIn) -> None:
    waiting = maintained.land(9, [row(9, 2, 30)])
    shown = steps.preview(maintained)
    assert (shown.rows, shown.dates, shown.expired_rows, shown.surplus_rows) == (4, 2, 0, 0)
    assert shown.refused == ()
    assert shown.exported_bytes == 4 * 6 * 8
    assert shown.compared_bytes == 2 * shown.exported_bytes
    for part in (
        "4 rows in 2 dates",
        "no key twice",
        "free",
        f"{shown.count_bytes} bytes (0.00 USD) for this count",
        f"Waiting now: {waiting}",
    ):
        assert part in shown.text
    assert maintained.services.current.read().intent is None
    assert maintained.services.warehouse.table(maintained.feed.staging) is None


def test_keys_are_not_counted_before_where_that_would_read_more_than_is_allowed(maintained: FeedOnStandIn) -> None:
    shown = steps.preview(maintained, count_limit=10)
    assert shown.surplus_rows is None
    assert shown.count_bytes == 4 * 4 * 8
    assert f"would read {shown.count_bytes} bytes" in shown.text
    assert "for this count" not in shown.text


@pytest.fixture
def doubled(maintained: FeedOnStandIn) -> FeedOnStandIn:
    """Keys that the table holds more than once: two ids, and two values of one id."""
    steps.insert(maintained, maintained.feed.target, [row(7, 1, 500), row(8, 4, 21), row(8, 4, 19)])
    return maintained


def test_duplicates_are_shown_with_their_dates_and_no_key(doubled: FeedOnStandIn) -> None:
    shown = steps.preview(doubled)
    assert shown.surplus_rows == 3
    (refused,) = shown.refused
    assert "[3] surplus rows of keys that occur more than once" in refused
    assert f"({TODAY}: 3)" in refused
    assert "product_id=" not in shown.text
    assert "It would be refused" in shown.text


@pytest.mark.exhaustive
def test_duplicates_whose_key_has_a_null_are_shown(doubled: FeedOnStandIn) -> None:
    """Source: aggregate_functions, ARRAY_AGG: no NULL element in an array of a result."""
    doubled.bigquery.query_and_wait(f"UPDATE warehouse.{doubled.feed.target} SET store_id = NULL WHERE TRUE")
    assert "a key with a NULL" in steps.preview(doubled).text


def test_duplicates_end_the_run_and_change_nothing(doubled: FeedOnStandIn) -> None:
    before = doubled.rows()
    spec = steps.begin(doubled)
    export_existing(doubled.services, spec.attempt)
    with pytest.raises(BootstrapRefused, match=r"\[3\] surplus rows of keys that occur more than once"):
        doubled.deduplicate(spec)
    assert doubled.rows() == before
    services = doubled.services
    assert services.current.read().intent is None
    (record,) = services.ledger.read_last(9)
    assert (record.outcome, record.is_bootstrap, record.snapshot_id) == (Outcome.REFUSED, True, 0)
    assert services.arrivals.refused() == []


@pytest.mark.exhaustive
def test_duplicates_are_resolved_as_the_feed_would_when_asked_to(doubled: FeedOnStandIn) -> None:
    record = steps.bootstrap(doubled, duplicates=Duplicates.KEEP_LATEST)
    assert [r for r in doubled.rows() if r[1] != 4] == expected(*[r for r in MAINTAINED if r["product_id"] != 4])
    assert record.ties == 3
    results = {i.check: i.found for i in read_check_results(doubled.services, record.attempt, "before").items}
    assert "3 rows with a repeated key were left out" in results["existing_rows"]
    assert results["existing_contents"] == f"equal on 1 dates: {YESTERDAY}"


def create_without_expiration(world: FeedOnStandIn, name: str, columns: str = COLUMNS, layout: str = "") -> None:
    layout = layout or f"PARTITION BY date CLUSTER BY {', '.join(world.feed.table.cluster_by)}"
    world.bigquery.query_and_wait(f"CREATE TABLE warehouse.{name} ({columns}) {layout}")


def test_rows_older_than_the_retention_have_to_be_given_up_in_words(world: FeedOnStandIn) -> None:
    old = TODAY - timedelta(days=world.feed.table.retention_days)
    create_without_expiration(world, world.feed.target)
    steps.insert(world, world.feed.target, [*MAINTAINED, row(7, 8, day=old)])
    shown = steps.preview(world)
    assert shown.exported_bytes == 4 * 6 * 8  # without the expired row
    (refused,) = shown.refused
    assert f"[1] rows in [1] dates before [{old + timedelta(days=1)}]" in refused
    assert "drop_expired" in refused
    with pytest.raises(BootstrapRefused, match="drop_expired"):
        resolve_bootstrap(world.services, steps.bootstrap_request(), shown.version)
    record = steps.bootstrap(world, drop_expired=True)
    assert world.rows() == expected(*MAINTAINED)
    assert f"without [1] rows before [{old + timedelta(days=1)}]" in record.reason


UNFIT: dict[str, tuple[dict[str, str], str]] = {
    "not partitioned": ({"layout": "CLUSTER BY product_id"}, r"partitioned by \[no column\].*expected by \[date\]"),
    "clustered otherwise": ({"layout": "PARTITION BY date CLUSTER BY attr_value"}, r"clustered by \[attr_value\]"),
    "a column too many": ({"columns": COLUMNS + ", note STRING"}, r"column \[note\] is not in the feed's file"),
    "a column too few": ({"columns": COLUMNS.replace(" attr_value INT64,", "")}, r"column \[attr_value\] is missing"),
    "another type": (
        {"columns": COLUMNS.replace("attr_value INT64", "attr_value STRING")},
        r"column \[attr_value\] is STRING, expected INT64",
    ),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_a_table_that_the_feed_does_not_describe_is_refused(world: FeedOnStandIn, unfit: str) -> None:
    changes, words = UNFIT[unfit]
    create_without_expiration(world, world.feed.target, **changes)
    with pytest.raises(BootstrapRefused, match=words):
        steps.preview(world)


def test_rows_without_a_date_and_of_the_future_are_refused(maintained: FeedOnStandIn) -> None:
    later = TODAY + timedelta(days=3)
    wrong = [{**row(8, 5), "date": None}, row(8, 6, day=later), row(8, 7, day=date(9999, 12, 31))]
    steps.insert(maintained, maintained.feed.target, wrong)
    with pytest.raises(BootstrapRefused) as refused:
        steps.preview(maintained)
    assert "column [date]: 2 rows are [NULL], before 1960, after 2159" in str(refused.value)
    assert "(__NULL__, __UNPARTITIONED__)" in str(refused.value)
    assert f"column [date]: 1 rows have dates after [{TODAY + timedelta(days=1)}]" in str(refused.value)


def test_a_view_and_a_table_with_a_partition_a_month_are_refused(maintained: FeedOnStandIn) -> None:
    table = maintained.services.warehouse.table(maintained.feed.target)
    assert table
    assert table_problems(maintained.services, table, is_target=True) == []
    (view,) = table_problems(maintained.services, replace(table, kind="VIEW"), is_target=True)
    assert view == "it is a [VIEW], expected a table: copy its rows into one, and name that"
    (monthly,) = table_problems(maintained.services, replace(table, granularity="MONTH"), is_target=True)
    assert "partitioned by [date] ([MONTH]), expected by [date] ([DAY])" in monthly


def test_types_with_parameters_would_be_lost_and_are_refused(maintained: FeedOnStandIn) -> None:
    table = maintained.bigquery.get_table(f"local-dev.warehouse.{maintained.feed.target}")
    table.schema = [*table.schema, bigquery.SchemaField("note", "STRING", max_length=10)]
    maintained.bigquery.update_table(table, ["schema"])
    columns = (*maintained.feed.table.columns, ColumnSettings(name="note", type="STRING"))
    declared = maintained.feed.table.model_copy(update={"columns": columns})
    maintained.feed = maintained.feed.model_copy(update={"table": declared})
    with pytest.raises(BootstrapRefused, match=r"would lack type parameters of column \[note\]: 10.*without the param"):
        steps.preview(maintained)
    maintained.bigquery.query_and_wait(
        f"ALTER TABLE warehouse.{maintained.feed.target} ALTER COLUMN note SET DATA TYPE STRING"
    )
    assert steps.preview(maintained).refused == ()


def test_what_only_another_table_has_is_named_before_the_approval(world: FeedOnStandIn) -> None:
    source = f"{world.feed.feed}_merged"
    steps.create_table(world, source)
    steps.insert(world, source, SNAPSHOT_7)
    assert "Not taken over" not in steps.preview(world, source_table=source).text
    describe(world, source)
    text = steps.preview(world, source_table=source).text
    assert "Not taken over: description of column [attr_value]: What a shop measured." in text
    assert "remove it from target" not in text


@pytest.fixture
def protected(world: FeedOnStandIn) -> Iterator[str]:
    """Another table than target, with row access policies and a policy tag. This client may read all of it."""
    source = f"{world.feed.feed}_merged"
    steps.create_table(world, source)
    steps.insert(world, source, SNAPSHOT_7)
    policies = {"all_rows": (STAND_IN_USER, "TRUE"), "some_rows": ("group:stores@example.com", "store_id = 2072")}
    for name, (member, rows) in policies.items():
        world.bigquery.query_and_wait(
            f"CREATE ROW ACCESS POLICY {name} ON warehouse.{source} GRANT TO ('{member}') FILTER USING ({rows})"
        )
    table = world.bigquery.get_table(f"local-dev.warehouse.{source}")
    fields = [field.to_api_repr() for field in table.schema]
    fields[4]["policyTags"] = {"names": [TAG]}
    table.schema = [bigquery.SchemaField.from_api_repr(field) for field in fields]
    world.bigquery.update_table(table, ["schema"])
    control = Control(world.bigquery._connection.API_BASE_URL.removeprefix("http://"))
    control.grant(FINE_GRAINED_READ)
    yield source
    control.clear_grants()


def test_policies_that_only_another_table_has_are_named_before_the_approval(
    world: FeedOnStandIn, protected: str
) -> None:
    """Else readers of target would see what the other table hides from them, and nobody was told."""
    text = steps.preview(world, source_table=protected).text
    assert "Not taken over: row access policies [all_rows, some_rows].** Readers of target would see the rows" in text
    assert "Declare them in table.policies.row_access" in text
    assert f"Not taken over: policy tags of columns [attr_value: {TAG}].** Readers of target would see" in text
    assert "Declare them in table.policies.column_tags" in text
    policies = PolicySettings(row_access=("all_rows", "some_rows"), column_tags={"attr_value": TAG})
    world.feed = world.feed.model_copy(update={"table": world.feed.table.model_copy(update={"policies": policies})})
    assert "Not taken over" not in steps.preview(world, source_table=protected).text


def test_a_policy_tag_of_a_nested_column_would_be_lost_with_target(maintained: FeedOnStandIn) -> None:
    table = maintained.services.warehouse.table(maintained.feed.target)
    assert table
    tagged = replace(table, options={policy_tag_entry("shop.owner"): TAG})
    (problem,) = table_problems(maintained.services, tagged, is_target=True)
    assert "policy tags on columns ['shop.owner']" in problem


def test_policies_that_may_not_be_listed_are_not_taken_for_absent(
    world: FeedOnStandIn, protected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Policies:
        raise Forbidden("Permission bigquery.rowAccessPolicies.list denied")  # type: ignore[no-untyped-call]

    monkeypatch.setattr("dedup_clone.warehouse.bigquery.Warehouse.policies", refuse)
    text = steps.preview(world, source_table=protected).text
    assert f"Not known: whether warehouse.{protected} has row access policies" in text
    assert "Permission bigquery.rowAccessPolicies.list denied" in text
    assert f"Not taken over: policy tags of columns [attr_value: {TAG}]" in text


def test_an_absent_table_and_a_wrong_name_are_refused(maintained: FeedOnStandIn) -> None:
    with pytest.raises(BootstrapRefused, match=r"nowhere\] does not exist.*land the first snapshot"):
        steps.preview(maintained, source_table="nowhere")
    with pytest.raises(ConfigurationError, match=r"no table's name, expected \[TABLE\] or \[DATASET.TABLE\]"):
        steps.preview(maintained, source_table="a.b.c.d")


def test_an_empty_table_is_refused_with_what_to_do_instead(world: FeedOnStandIn) -> None:
    steps.create_table(world, world.feed.target)
    with pytest.raises(BootstrapRefused, match="land the first snapshot instead"):
        steps.preview(world)


def test_another_table_is_refused_while_target_exists(maintained: FeedOnStandIn) -> None:
    source = f"{maintained.feed.feed}_merged"
    steps.create_table(maintained, source)
    with pytest.raises(BootstrapRefused, match=r"target .* exists, and another table is to be taken over"):
        steps.preview(maintained, source_table=source)


def test_a_table_in_another_location_is_refused(maintained: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dedup_clone.warehouse.bigquery.Warehouse.location", "EU")
    with pytest.raises(BootstrapRefused, match=r"lies in \[US\], expected \[EU\]"):
        steps.preview(maintained)


def test_a_feed_that_publishes_already_is_refused(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, SNAPSHOT_7))
    with pytest.raises(BootstrapRefused, match=r"publishes already \(generation \[1\]\)"):
        steps.preview(world)


def test_policies_that_the_feed_does_not_declare_would_be_lost(maintained: FeedOnStandIn) -> None:
    maintained.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY some_rows ON warehouse.{maintained.feed.target} "
        "GRANT TO ('group:stores@example.com') FILTER USING (store_id = 2072)"
    )
    with pytest.raises(BootstrapRefused, match=r"row access policies \['some_rows'\].*declare them"):
        steps.preview(maintained)


def describe(world: FeedOnStandIn, name: str) -> None:
    table = world.bigquery.get_table(f"local-dev.warehouse.{name}")
    fields = [field.to_api_repr() for field in table.schema]
    fields[4]["description"] = "What a shop measured."
    table.schema = [bigquery.SchemaField.from_api_repr(field) for field in fields]
    world.bigquery.update_table(table, ["schema"])


def test_what_the_table_has_besides_rows_is_declared_or_refused_before_the_approval(maintained: FeedOnStandIn) -> None:
    table = maintained.bigquery.get_table(f"local-dev.warehouse.{maintained.feed.target}")
    table.labels, table.friendly_name, table.description = {"team": "stores"}, "Attributes", "What MERGE has made."
    table.table_constraints = TableConstraints(PrimaryKey(list(steps.KEYS)), None)
    table.expires = datetime.now(UTC) + timedelta(days=9)
    maintained.bigquery.update_table(table, ["labels", "friendly_name", "description", "table_constraints", "expires"])
    describe(maintained, maintained.feed.target)
    with pytest.raises(BootstrapRefused) as refused:
        steps.preview(maintained)
    for words in (
        "label [team]: stores",
        "friendly name: Attributes",
        "primary key: date, product_id, store_id, attribute_id",
        "description of column [attr_value]",
        "declare label in table.options.labels",
        "it would be deleted",
    ):
        assert words in str(refused.value)
    columns = [column.model_dump() for column in maintained.feed.table.columns]
    columns[4]["description"] = "What a shop measured."
    declared = {
        "columns": tuple(columns),
        "primary_key": True,
        "options": {"labels": {"team": "stores"}, "friendly_name": "Attributes"},
    }
    values = maintained.feed.model_dump()
    maintained.feed = Feed.model_validate({**values, "table": {**values["table"], **declared}})
    maintained.bigquery.query_and_wait(
        f"ALTER TABLE warehouse.{maintained.feed.target} SET OPTIONS (expiration_timestamp = NULL)"
    )
    steps.bootstrap(maintained)
    found = maintained.bigquery.get_table(f"local-dev.warehouse.{maintained.feed.target}")
    assert (found.labels["team"], found.friendly_name) == ("stores", "Attributes")
    assert found.description.startswith(maintained.feed.description)
    assert found.table_constraints.primary_key.columns == list(steps.KEYS)
    assert found.schema[4].description == "What a shop measured."


def test_a_description_that_staging_has_need_not_be_declared(maintained: FeedOnStandIn) -> None:
    steps.create_table(maintained, maintained.feed.staging)
    for name in (maintained.feed.target, maintained.feed.staging):
        describe(maintained, name)
    assert steps.preview(maintained).refused == ()
