"""CREATE OR REPLACE TABLE … CLONE: what it replaces, takes over, refuses, and shows to readers."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from google.api_core.exceptions import BadRequest, Forbidden

from tests.conformance.rules import NO_VERDICT, rule
from tests.conformance.sandbox import MILLISECONDS_PER_DAY, Sandbox

SWAP = "sql/publish/swap_target.sql"
TABLE_CHECKS = "plugins/dedup_clone/checks/table_checks.py"
OPTION_CHECKS = "plugins/dedup_clone/checks/table_checks.py"
LAYOUT = "PARTITION BY day CLUSTER BY id"
PUBLISH_NOTHING = "Publish nothing: no other statement replaces a table at once and without reading it."
STRICTER = "Nothing: the product is stricter than BigQuery."
SWAPS_UNDER_READERS = 4
READER_ENDS_WITHIN_S = 60.0


def swap(sandbox: Sandbox, target: str, staging: str, at: datetime | None = None) -> None:
    """Replace target by a clone of staging as it is, or as it was at the time `at`."""
    as_of, parameters = (" FOR SYSTEM_TIME AS OF @at", {"at": at}) if at else ("", {})
    sandbox.query(f"CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`{as_of}", parameters)


def swapped(sandbox: Sandbox, name: str) -> tuple[str, str]:
    """A table with one row, and a target that was cloned from it."""
    staging, target = sandbox.new_table(name, [(sandbox.today, 1, 1)]), sandbox.table(f"{name}_target")
    swap(sandbox, target, staging)
    return staging, target


@rule("Restore table snapshots; DDL", SWAP, PUBLISH_NOTHING)
def test_clone_replaces(sandbox: Sandbox) -> None:
    """CREATE OR REPLACE TABLE … CLONE replaces an existing clone, which does not follow its base."""
    staging, target = swapped(sandbox, "replaces")
    sandbox.load(staging, [(sandbox.today, 1, 2)])
    assert sandbox.numbers(target) == [1]
    swap(sandbox, target, staging)
    assert sandbox.numbers(target) == [2]


@rule(
    "none: a time and options with parameters are not described for CLONE",
    SWAP,
    "Publish nothing until swap_target.sql is rendered with constants in place of the parameters.",
)
def test_clone_in_a_script_with_parameters(sandbox: Sandbox) -> None:
    """Inside IF in a script, CLONE takes FOR SYSTEM_TIME AS OF @parameter and OPTIONS with parameters."""
    staging, target = sandbox.new_table("script", [(sandbox.today, 1, 1)]), sandbox.table("script_target")
    checked_at = sandbox.now()
    sandbox.load(staging, [(sandbox.today, 1, 2)])
    sandbox.query(
        f"""DECLARE live STRING DEFAULT '';
        IF live != @generation THEN
          ASSERT live = '' AS 'somebody else published';
          CREATE OR REPLACE TABLE `{target}` CLONE `{staging}` FOR SYSTEM_TIME AS OF @checked_at
          OPTIONS (partition_expiration_days = @days, description = @description,
                   labels = [('dedup_clone_generation', @generation)]);
        END IF""",
        {"generation": "7", "checked_at": checked_at, "days": 365, "description": "from a parameter"},
    )
    made = sandbox.client.get_table(target)
    assert sandbox.numbers(target) == [1]
    assert made.description == "from a parameter"
    assert made.labels.get("dedup_clone_generation") == "7"
    assert made.time_partitioning.expiration_ms == 365 * MILLISECONDS_PER_DAY


@rule("Data definition language; Introduction to table clones", SWAP, "Set no `table.keep_previous`.")
def test_a_clone_that_expires_keeps_what_a_swap_replaces(sandbox: Sandbox) -> None:
    """CLONE takes an expression as expiration_timestamp, which is that of the clone, not of its base."""
    staging, target = swapped(sandbox, "expires")
    previous = sandbox.table("expires_previous")
    for number in (2, 3):
        sandbox.load(staging, [(sandbox.today, 1, number)])
        sandbox.query(
            f"""DROP TABLE IF EXISTS `{previous}`;
            CREATE TABLE `{previous}` CLONE `{target}`
            OPTIONS (expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 7 DAY));
            CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`"""
        )
        assert (sandbox.numbers(previous), sandbox.numbers(target)) == ([number - 1], [number])
    kept, *others = (sandbox.client.get_table(name) for name in (previous, target, staging))
    assert timedelta(days=6, hours=23) < kept.expires - sandbox.now() < timedelta(days=7, minutes=1)
    assert [table.expires for table in others] == [None, None]


@rule("SCHEMATA_OPTIONS view (of datasets)", SWAP, "Correct the regular expression of swap_target.sql.")
def test_labels_are_text_in_table_options(sandbox: Sandbox) -> None:
    """INFORMATION_SCHEMA.TABLE_OPTIONS writes labels as [STRUCT("name", "value"), …]."""
    table = sandbox.new_table("labels")
    sandbox.query(f"ALTER TABLE `{table}` SET OPTIONS (labels = [('dedup_clone_generation', '41'), ('other', 'x')])")
    ((generation, text),) = sandbox.rows(
        f"""SELECT REGEXP_EXTRACT(option_value, r'"dedup_clone_generation", "([0-9]+)"'), option_value
        FROM {sandbox.view("TABLE_OPTIONS")} WHERE table_name = 'labels' AND option_name = 'labels'"""
    )
    sandbox.notes.append(f"The text is {text}")
    assert generation == "41"


@rule(
    "REST resource tables; View table snapshot metadata",
    f"{TABLE_CHECKS} plugins/dedup_clone/publish/commit.py",
    "Publish nothing: every publish would end as failed after its swap.",
)
def test_a_clone_shows_its_base_and_its_time(sandbox: Sandbox) -> None:
    """tables.get shows a clone's base, and the time of FOR SYSTEM_TIME AS OF in milliseconds; it is of type CLONE."""
    staging, target = sandbox.new_table("clone_time", [(sandbox.today, 1, 1)]), sandbox.table("clone_time_target")
    at = sandbox.now()
    swap(sandbox, target, staging, at)
    shown = sandbox.rest("/tables/clone_time_target").get("cloneDefinition", {})
    assert shown.get("baseTableReference", {}).get("tableId") == "clone_time"
    assert datetime.fromisoformat(shown["cloneTime"]) == at.replace(microsecond=at.microsecond // 1000 * 1000)
    types = sandbox.rows(f"SELECT table_type FROM {sandbox.view('TABLES')} WHERE table_name = 'clone_time_target'")
    assert types == [("CLONE",)]


@rule("DDL; Manage partitioned tables", TABLE_CHECKS, STRICTER)
def test_another_partitioning_is_refused(sandbox: Sandbox) -> None:
    """A clone does not replace a table that is partitioned differently."""
    staging = sandbox.new_table("partitioning", [(sandbox.today, 1, 1)])
    target = sandbox.make("partitioning_target", "day DATE, id INT64, number INT64")
    sandbox.refused(f"CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`", "different partitioning")


@rule("Manage partitioned tables (of copy jobs)", TABLE_CHECKS, STRICTER)
def test_another_clustering_is_refused(sandbox: Sandbox) -> None:
    """A clone does not replace a table that is clustered differently."""
    staging = sandbox.new_table("clustering", [(sandbox.today, 1, 1)])
    target = sandbox.new_table("clustering_target", clustering=("number",))
    sandbox.refused(f"CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`")


@rule(
    "none",
    f"{SWAP} {OPTION_CHECKS}",
    "Remove from staging what the clone should not have: `ALTER TABLE … SET OPTIONS`.",
)
def test_a_clone_has_no_options_of_its_base(sandbox: Sandbox) -> None:
    """Without OPTIONS, a clone has no partition expiration, labels or description, even if its base has them."""
    _, target = swapped(sandbox, "no_options")
    made = sandbox.client.get_table(target)
    assert (made.time_partitioning.expiration_ms, made.labels, made.description) == (None, {}, None)


@rule(
    "Introduction to table clones",
    f"{SWAP} {TABLE_CHECKS}",
    "Publish nothing: every second publish would stop at the check layout.",
)
def test_a_clone_has_the_layout_of_its_base(sandbox: Sandbox) -> None:
    """A clone has its base's schema, partitioning and clustering."""
    made, base = (sandbox.client.get_table(table) for table in reversed(swapped(sandbox, "layout")))
    assert made.schema == base.schema
    assert made.time_partitioning.field == base.time_partitioning.field
    assert made.clustering_fields == base.clustering_fields


@rule("Quotas", f"{SWAP} plugins/dedup_clone/publish/declared_form.py", STRICTER)
def test_the_fourth_clone_in_a_chain_is_refused(sandbox: Sandbox) -> None:
    """A table has at most three levels of clones."""
    last = sandbox.new_table("depth0", [(sandbox.today, 1, 1)])
    for depth in (1, 2, 3):
        swap(sandbox, sandbox.table(f"depth{depth}"), last)
        last = sandbox.table(f"depth{depth}")
    sandbox.refused(f"CREATE TABLE `{sandbox.table('depth4')}` CLONE `{last}`")


@rule("none", "plugins/dedup_clone/publish/declared_form.py", STRICTER)
def test_a_table_is_not_cloned_onto_itself_or_its_base(sandbox: Sandbox) -> None:
    """No table is replaced by a clone of itself or of its own clone."""
    staging, target = swapped(sandbox, "circle")
    for source in (staging, target):
        sandbox.refused(f"CREATE OR REPLACE TABLE `{staging}` CLONE `{source}`")


@rule(
    "Time travel; Query syntax",
    "plugins/dedup_clone/operations/rollback.py",
    "Replay the snapshot in place of FEED_rollback.",
)
def test_the_past_of_staging_is_cloned_back(sandbox: Sandbox) -> None:
    """Staging as it was before a load can be cloned to target."""
    staging, target = sandbox.new_table("back", [(sandbox.today, 1, 1)]), sandbox.table("back_target")
    at = sandbox.now()
    sandbox.load(staging, [(sandbox.today, 1, 2)])
    swap(sandbox, target, staging)
    swap(sandbox, target, staging, at)
    assert sandbox.numbers(target) == [1]


@rule(
    "Time travel; Query syntax",
    "docs/runbook.md",
    "Roll back to look at an earlier generation; do not rely on FOR SYSTEM_TIME AS OF of target.",
)
def test_the_past_of_a_replaced_table_is_read(sandbox: Sandbox) -> None:
    """A table's past from before CREATE OR REPLACE can be read, but not its future."""
    staging, target = swapped(sandbox, "past")
    at = sandbox.now()
    sandbox.load(staging, [(sandbox.today, 1, 2)])
    swap(sandbox, target, staging)
    assert sandbox.rows(f"SELECT number FROM `{target}` FOR SYSTEM_TIME AS OF @at", {"at": at}) == [(1,)]
    later = "TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR)"
    sandbox.refused(f"SELECT number FROM `{target}` FOR SYSTEM_TIME AS OF {later}")


@rule("none", SWAP, "Publish when nobody reads, or let readers repeat queries that fail during a swap.")
def test_readers_see_one_table_during_swaps(sandbox: Sandbox) -> None:
    """A query during a swap succeeds, and reads all rows of the old table or all rows of the new one."""
    staging = sandbox.new_table("readers", [(sandbox.today, key, 0) for key in range(5)])
    target = sandbox.table("readers_target")
    swap(sandbox, target, staging)
    must_stop, answers, errors = threading.Event(), list[Any](), list[Exception]()

    def read() -> None:
        while not must_stop.is_set():
            try:
                answers.extend(sandbox.rows(f"SELECT MIN(number), MAX(number), COUNT(*) FROM `{target}`"))
            except Exception as error:
                errors.append(error)
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        for number in range(1, SWAPS_UNDER_READERS + 1):
            sandbox.load(staging, [(sandbox.today, key, number) for key in range(5)])
            swap(sandbox, target, staging)
    finally:
        must_stop.set()
        reader.join(READER_ENDS_WITHIN_S)
    if errors and isinstance(errors[0], NO_VERDICT):
        raise errors[0]
    assert errors == []
    if not answers:
        pytest.skip("no query was answered during the swaps")
    assert [answer for answer in answers if answer[0] != answer[1] or answer[2] != 5] == []
    sandbox.notes.append(f"{SWAPS_UNDER_READERS} swaps, {len(answers)} answers")


@rule(
    "none",
    "plugins/dedup_clone/publish/commit.py plugins/dedup_clone/operations/rollback.py",
    "Take `swapped_at` in publish/commit.py from the end of the swap's job.",
)
def test_a_replaced_table_has_a_new_creation_time(sandbox: Sandbox) -> None:
    """A replaced table was created when it was replaced; a load does not change a table's creation time."""
    staging, target = swapped(sandbox, "created")
    made, between = sandbox.client.get_table(staging).created, sandbox.now()
    sandbox.load(staging, [(sandbox.today, 1, 2)])
    swap(sandbox, target, staging)
    replaced = sandbox.client.get_table(target).created
    assert replaced is not None
    assert between < replaced <= sandbox.now()
    assert sandbox.client.get_table(staging).created == made


@rule(
    "Multi-statement transactions",
    SWAP,
    "Nothing: the product uses no transaction.",
    local="the stand-in has no transactions",
)
def test_a_transaction_has_no_ddl(sandbox: Sandbox) -> None:
    """CREATE OR REPLACE TABLE is refused inside a transaction."""
    staging, target = sandbox.new_table("transaction", [(sandbox.today, 1, 1)]), sandbox.table("transaction_target")
    swap_it = f"CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`"
    sandbox.refused(f"BEGIN TRANSACTION; {swap_it}; COMMIT TRANSACTION")


@rule(
    "Manage materialized views; Introduction to materialized views",
    f"{TABLE_CHECKS} plugins/dedup_clone/warehouse/materialized_views.py",
    "Nothing: the check refuses more than it must. Let the view read a view of target.",
    local="the stand-in has no materialized views",
)
def test_a_materialized_view_breaks(sandbox: Sandbox) -> None:
    """A materialized view over a table that is replaced breaks."""
    staging, target = swapped(sandbox, "viewed")
    view = sandbox.table("the_view")
    sandbox.query(f"CREATE MATERIALIZED VIEW `{view}` AS SELECT day, COUNT(*) AS n FROM `{target}` GROUP BY day")
    swap(sandbox, target, staging)
    sandbox.refused(f"SELECT * FROM `{view}`", "deleted and recreated")


@rule(
    "Use materialized views",
    "plugins/dedup_clone/publish/swap.py",
    "Keep `publish.swap: clone`, and let the view read a view of target.",
    local="the stand-in has no materialized views",
)
def test_a_materialized_view_survives_a_load(sandbox: Sandbox) -> None:
    """A materialized view over a table whose rows a load replaced gives the new rows."""
    target, view = sandbox.new_table("loaded", [(sandbox.today, 1, 1)]), sandbox.table("loaded_view")
    sandbox.query(f"CREATE MATERIALIZED VIEW `{view}` AS SELECT day, COUNT(*) AS n FROM `{target}` GROUP BY day")
    sandbox.load(target, [(sandbox.today, 1, 1), (sandbox.today, 2, 1)])
    assert [row[0] for row in sandbox.rows(f"SELECT n FROM `{view}`")] == [2]


@rule(
    "none",
    "plugins/dedup_clone/warehouse/table_options.py",
    "Have no parameterized types on target and staging.",
)
def test_a_clone_has_the_parameters_of_types(sandbox: Sandbox) -> None:
    """A clone has the parameters of its base's types, such as those of STRING(10)."""
    staging = sandbox.make("parameters", "day DATE, id INT64, code STRING(10), share NUMERIC(5, 2)", LAYOUT)
    for _ in range(2):
        swap(sandbox, sandbox.table("parameters_target"), staging)
    fields = sandbox.fields("parameters_target")
    found = [fields["code"].get("maxLength"), fields["share"].get("precision"), fields["share"].get("scale")]
    assert found == ["10", "5", "2"]


@rule(
    "none",
    f"plugins/dedup_clone/warehouse/table_options.py {OPTION_CHECKS}",
    "Have no default values on target: each publish would remove them.",
    local="the stand-in has no default values",
)
def test_a_clone_has_the_default_values(sandbox: Sandbox) -> None:
    """A clone has the default values of its base's columns."""
    staging, target = swapped(sandbox, "defaults")
    fields = list(sandbox.fields("defaults").values())
    with_default = [{**f, "defaultValueExpression": "7"} if f["name"] == "number" else f for f in fields]
    sandbox.rest("/tables/defaults", "PATCH", {"schema": {"fields": with_default}})
    swap(sandbox, target, staging)
    assert sandbox.fields("defaults_target")["number"].get("defaultValueExpression") == "7"


@rule(
    "Use primary and foreign keys (of copies)",
    f"plugins/dedup_clone/warehouse/table_options.py {OPTION_CHECKS}",
    "Have no foreign keys on target: each publish would remove them.",
    local="the stand-in has no foreign keys",
)
def test_a_clone_has_the_foreign_keys(sandbox: Sandbox) -> None:
    """A clone has the foreign keys of its base."""
    staging, target = swapped(sandbox, "foreign_keys")
    sandbox.make("stores", "id INT64, PRIMARY KEY (id) NOT ENFORCED")
    stores = {"projectId": sandbox.servers.project, "datasetId": sandbox.name, "tableId": "stores"}
    pair = {"referencingColumn": "number", "referencedColumn": "id"}
    key = {"name": "to_stores", "referencedTable": stores, "columnReferences": [pair]}
    sandbox.rest("/tables/foreign_keys", "PATCH", {"tableConstraints": {"foreignKeys": [key]}})
    swap(sandbox, target, staging)
    found = sandbox.rest("/tables/foreign_keys_target").get("tableConstraints", {}).get("foreignKeys", [])
    assert [made["columnReferences"] for made in found] == [[pair]]


@rule(
    "Create table clones",
    SWAP,
    "Grant access on the dataset: each publish would revoke what was granted on target.",
    local="the stand-in has no IAM policies of tables",
)
def test_a_replaced_table_keeps_its_access(sandbox: Sandbox) -> None:
    """A clone that replaces a table keeps the access that was granted on the table."""
    staging, target = swapped(sandbox, "access")
    reader = {"role": "roles/bigquery.dataViewer", "members": ["allAuthenticatedUsers"]}
    path = "/tables/access_target"
    try:
        sandbox.rest(f"{path}:setIamPolicy", "POST", {"policy": {"bindings": [reader]}})
    except (BadRequest, Forbidden) as error:
        pytest.skip(f"no role can be granted on a table here, perhaps by an organization policy: {error}")
    swap(sandbox, target, staging)
    assert sandbox.rest(f"{path}:getIamPolicy", "POST", {}).get("bindings", []) == [reader]


@rule(
    "Authorized views (replaced tables: not said)",
    SWAP,
    "Authorize the views anew after each publish, or grant their readers access to target.",
    local="the stand-in has no authorized views",
)
def test_a_replaced_table_keeps_its_authorized_views(sandbox: Sandbox) -> None:
    """A dataset authorizes its views as before when a table that they read is replaced."""
    staging, target = swapped(sandbox, "authorized")
    sandbox.query(f"CREATE VIEW `{sandbox.table('authorized_view')}` AS SELECT number FROM `{target}`")
    view = {"projectId": sandbox.servers.project, "datasetId": sandbox.name, "tableId": "authorized_view"}
    sandbox.rest("", "PATCH", {"access": [*sandbox.rest().get("access", []), {"view": view}]})
    swap(sandbox, target, staging)
    assert [entry["view"] for entry in sandbox.rest().get("access", []) if "view" in entry] == [view]
    assert sandbox.numbers(sandbox.table("authorized_view")) == [1]
