"""Feed files are read strictly; each error names file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.feed import FreshnessSettings, read_feed
from dedup_clone.settings.spark_settings import SparkSize
from dedup_clone.settings.table_settings import TableSettings

FEEDS = Path(__file__).parents[3] / "dags" / "feeds"
REFERENCE = (FEEDS / "product_attributes.yaml").read_text()
DAYS, SLA = "retention_days: 730", "sla_minutes: 60"


def write(folder: Path, text: str, name: str = "product_attributes") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", sorted(FEEDS.glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_feeds_are_valid(path: Path) -> None:
    feed = read_feed(path)
    assert (feed.target, feed.staging) == (path.stem, f"{path.stem}_staging")


# Lines that are added to two sections of REFERENCE, and what is said of them.
IN_TABLE = [
    ("options: {labels: {dedup_clone_x: a}}", r"begin with \[dedup_clone_\]"),
    ("options: {labels: {Team: a}}", r"options.labels.Team"),
    ("options: {friendly_name: 'a\"b'}", r"options.friendly_name"),
    ('options: {friendly_name: "a\\rb"}', r"options.friendly_name"),
    ("options: {kms_key: a key}", r"options.kms_key"),
    ("absent_dates: delete", r"table.*absent_keys is \[keep\]: set"),
    ("keep_previous: 7 days", r"table.keep_previous"),
    ("keep_previous: 7d\n  policies: {row_access: [a]}", r"policies: remove keep_previous"),
    ("keep_previous: 7d\npublish: {swap: copy}", r"replaces none: use swap \[clone\], or remove keep_previous"),
    ("policies: {row_access: [a]}\nchanges: true", r"show what they hide"),
    ("primary_key: yes", r":21: \[table.primary_key\].*valid boolean"),
    ("primary_key: off", r":21: \[table.primary_key\].*valid boolean"),
]
IN_FRESHNESS = [
    ("expected_arrivals: {times: [1000]}", r"expected_arrivals.times.0\]"),
    ('expected_arrivals: {times: ["24:00"]}', r"expected_arrivals.times.0\]"),
    ('expected_arrivals: {times: ["7:00"]}', r"expected_arrivals.times.0\]"),
    ("expected_arrivals: {times: []}", r"expected_arrivals.times\]"),
    ("expected_arrivals: {times: 5}", r"expected_arrivals.times\]"),
    ('expected_arrivals: {times: ["10:00", "10:00"]}', "twice"),
    ('expected_arrivals: {times: ["10:00"], zone: Berlin}', r"zone \[Berlin\]"),
    ('expected_arrivals: {times: ["10:00"], zone: "../etc/passwd"}', "no IANA time zone"),
    ('expected_arrivals: {time: ["10:00"]}', r"unknown key \[freshness.expected_arrivals.time\]"),
    ("max_age_minutes: 0", "max_age_minutes"),
    ("promis: 1", r"unknown key \[freshness.promis\]"),
]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        *((DAYS, f"{DAYS}\n  {line}", message) for line, message in IN_TABLE),
        *((SLA, f"{SLA}\n  {line}", message) for line, message in IN_FRESHNESS),
        ("cluster_by:", "clusterby:", r":19: unknown key \[table.clusterby\]: did you mean \[cluster_by\]"),
        ("retention_days: 730", "retention_days: 0", r"table.retention_days.*greater than or equal to 1"),
        ("retention_days: 730", 'retention_days: "730"', r"table.retention_days.*valid integer"),
        ("type: INT64}\n    - {name: store_id", "type: INT}\n    - {name: store_id", r":11: \[table.columns.1.type\]"),
        ("keys: [date, ", "keys: [", r"keys must contain the partition column \[date\]: rows are compared"),
        ("keys: [date, ", "keys: [date, day, ", r"\['day'\] are not among the columns"),
        ("keys: [date, ", "keys: [date, date, ", r"keys name a column twice"),
        ("snapshot_id_column: update_id", "snapshot_id_column: date", r"must be INT64 and no key"),
        ("{name: date, type: DATE}", "{name: date, type: STRING}", r"\[STRING\], expected one of .*add a date"),
        ("partition_column: date", "partition_column: none", r"let the producer add a DATE column"),
        ("snapshot_id_column: update_id", "snapshot_id_column: none", r"declare a column.*which the files may lack"),
        (
            "owner:",
            "publish: {swap: copy}\nengine: merge\nowner:",
            r"engine \[merge\] writes none: use engine \[spark\]",
        ),
        ("name: attr_value, type: INT64", "name: attr_value, type: STRUCT", r"STRUCT needs fields"),
        ("{name: store_id, type: INT64}", "{name: store_id, type: FLOAT64}", r"cannot be a key"),
        ("cluster_by: [", "cluster_by: [store_id, ", r"cluster_by names a column twice"),
        ("name: attr_value", "name: STORE_ID", r"same name"),
        ("name: attr_value", "name: 'x; DROP TABLE'", r"columns.4.name"),
        ("name: attr_value", "name: _partitiondate", r":14: \[table.columns.4.name\]: .*begins with"),
        ("name: attr_value", "name: Product_Attributes", r"\['Product_Attributes'\] have the name of the table"),
        ("name: attr_value", "name: product_attributes_staging", r"have the name of the table"),
        ("feed: product_attributes", "feed: Product", r"should match pattern"),
        ("feed: product_attributes", "feed: orders_staging", r"would be the staging table of a feed \[orders\]"),
        ("feed: product_attributes", "feed: orders_incoming_00000012-ab12cd", r"should match pattern"),
        ("feed: product_attributes", "feed: dedup_clone_status", r"begins with \[dedup_clone_\]"),
        ("feed: product_attributes", "feed: other", r"expected \[product_attributes\] as the file is named"),
        ("prefix: product_attributes", "prefix: /a b", r"landing.prefix"),
        ("sla_minutes: 60", "sla_minute: 60", r"unknown key \[freshness.sla_minute\]: did you mean \[sla_minutes\]"),
        ("owner: data-platform", "", r"\[owner\]: Field required"),
        ("feed: product_attributes", "feed: [", r"is not YAML"),
        ("owner:", "changes: true\nengine: merge\nowner:", r"engine \[merge\] does not find out which rows changed"),
        ("feed: product_attributes", "feed: orders_changes", r"would be the changes table of a feed \[orders\]"),
        ("feed: product_attributes", "feed: orders_previous", r"would be the previous table of a feed \[orders\]"),
        ("feed: product_attributes", "feed: information_schema", r":3: \[feed\]: .*\[information_schema\]"),
        ("\nchecks:", "\nchecks:\n  unique_across_dates: [date]", r"unique_across_dates is \['date'\], expected some"),
        ("\nchecks:", "\nchecks:\n  unique_across_dates: [attr_value]", r"expected some of the keys without the date"),
        (
            "\nchecks:",
            "\nchecks:\n  unique_across_dates: [store_id]\n  sql: [{name: unique_across_dates}]",
            r"checks.sql names one check twice",
        ),
        ("\nchecks:", "\nchecks:\n  sql: [{name: n, min: .nan}]", "finite number"),
        ("\nchecks:", "\nchecks:\n  sql: [{name: n, max: .nan}]", "finite number"),
        (
            "owner:",
            "dedup: {plan: antijoin}\nowner:",
            r"yaml:[0-9]+: \[dedup.plan\].*'auto', 'adopt', 'rewrite' or 'window'",
        ),
        (
            "owner:",
            "cdc: {publish: direct}\nowner:",
            r"\[cdc.publish\] is no longer a setting: engine cdc streams into",
        ),
        (
            "owner:",
            "dedup: {compare_values: false}\nowner:",
            r"\[dedup.compare_values\] is no longer a setting: changed",
        ),
        ("owner:", "full_size_gb: 15000\nowner:", r"\[full_size_gb\] is no longer a setting: the page shows what each"),
        ("retention_days: 730", "retention_days: 1:30", r":20: \[table.retention_days\].*valid integer"),
        ("retention_days: 730", "retention_days: 7_30", r":20: \[table.retention_days\].*valid integer"),
        ("retention_days: 730", "retention_days: 0b11", r":20: \[table.retention_days\].*valid integer"),
        ("sla_minutes: 60", "sla_minutes: 1:00", r"\[freshness.sla_minutes\].*valid integer"),
    ],
)
def test_a_wrong_feed_file_is_refused_with_line_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in REFERENCE
    with pytest.raises(ConfigurationError, match=message):
        read_feed(write(tmp_path, REFERENCE.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("written", "days"), [("010", 10), ("0o10", 8), ("0x10", 16), ("+30", 30)], ids=["zero", "octal", "hex", "plus"]
)
def test_numbers_are_those_of_yaml_1_2(tmp_path: Path, written: str, days: int) -> None:
    """YAML 1.2.2, section 10.3.2, core schema; YAML 1.1 reads 010 as 8."""
    text = REFERENCE.replace("retention_days: 730", f"retention_days: {written}")
    assert read_feed(write(tmp_path, text)).table.retention_days == days


@pytest.mark.parametrize("text", ["yes", "No", "on", "1:30", "2026-13-01", "2026-01-01", "0b1", "1_000", "="])
def test_texts_of_yaml_1_2_need_no_quotes(tmp_path: Path, text: str) -> None:
    values = REFERENCE.replace("owner: data-platform", f"owner: {text}")
    assert read_feed(write(tmp_path, values)).owner == text


@pytest.mark.parametrize("column", ["type: BYTES", "type: FLOAT64", "type: STRING, mode: REPEATED"])
def test_a_column_that_cannot_cluster_is_refused(tmp_path: Path, column: str) -> None:
    """BigQuery's page "Create clustered tables": limitations."""
    text = REFERENCE.replace("name: attr_value, type: INT64", f"name: attr_value, {column}")
    text = text.replace("cluster_by: [", "cluster_by: [attr_value, ")
    with pytest.raises(ConfigurationError, match=r"cluster_by: \['attr_value'\] are REPEATED or of a type that cannot"):
        read_feed(write(tmp_path, text))


def test_a_key_named_like_a_column_of_the_changes_table_is_refused(tmp_path: Path) -> None:
    text = REFERENCE.replace("store_id", "Generation").replace("owner:", "changes: true\nowner:")
    with pytest.raises(ConfigurationError, match=r"keys \['Generation'\] are named like columns"):
        read_feed(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Cannot read .*none.yaml"):
        read_feed(tmp_path / "none.yaml")


def test_a_key_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    """Otherwise the second section `checks` would silently replace the first."""
    path = write(tmp_path, f"{REFERENCE}checks: {{max_new_share: 0.1}}\n")
    first, second = (number for number, line in enumerate(path.read_text().splitlines(), 1) if "checks:" in line)
    with pytest.raises(ConfigurationError, match=rf"yaml:{second}: key \[checks\] is in line {first}, too: remove one"):
        read_feed(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("description: Müller".encode("latin-1"), "is not UTF-8"),
        (b"retention_days: !!int 1:30", "value that cannot be read: .*1:30"),
        (b"description: !!timestamp 2026-13-01", "value that cannot be read: month"),
        (b"table: {options: {labels: {!!timestamp 2026-12-01: x}}}", "key or value that is no text"),
        (b"table: &table {columns: [*table]}", "key or value that is no text"),
    ],
    ids=["encoding", "number", "date", "key", "recursion"],
)
def test_a_file_that_is_no_text_is_a_configuration_error(tmp_path: Path, content: bytes, message: str) -> None:
    """Any other error would end the import of a DAG file, and with it the DAGs of all feeds."""
    path = tmp_path / "orders.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"orders.yaml\] .*{message}"):
        read_feed(path)


def test_a_query_that_is_no_text_is_a_configuration_error(tmp_path: Path) -> None:
    path = write(tmp_path, REFERENCE.replace("\nchecks:\n", "\nchecks:\n  sql: [{name: has_rows}]\n"))
    (tmp_path / path.stem).mkdir()
    (tmp_path / path.stem / "has_rows.sql").write_bytes("-- für alle\nSELECT 1".encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"has_rows.sql\] is not UTF-8"):
        read_feed(path)


@pytest.mark.parametrize("field", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        *("_TABLE_x", "_file_name", "_PartitionTime", "_ROW_TIMESTAMP", "__root__", "_COLIDENTIFIER_1"),
        *("_CHANGE_SEQUENCE_NUMBER", "_change_type", "_CHANGE_TIMESTAMPS"),
        *("dedup_clone_source", "Dedup_Clone_landed"),
    ],
)
def test_a_name_that_is_reserved_is_refused(tmp_path: Path, name: str, field: bool) -> None:
    """BigQuery documentation: schemas, section Column names. Case is ignored there. The last two are our own."""
    column = f"{{name: info, type: STRUCT, fields: [{{name: {name}, type: INT64}}]}}" if field else ""
    text = REFERENCE.replace("{name: attr_value, type: INT64}", column or f"{{name: {name}, type: INT64}}", 1)
    assert name in text
    key = "columns.4.fields.0.name" if field else "columns.4.name"
    with pytest.raises(ConfigurationError, match=rf"product_attributes.yaml:\d+: \[table.{key}\]: .*\[{name}\]"):
        read_feed(write(tmp_path, text))


@pytest.mark.parametrize("name", ["_rank", "_partial", "table_", "change_type", "_TABLE"])
def test_other_names_with_an_underscore_are_accepted(tmp_path: Path, name: str) -> None:
    feed = read_feed(write(tmp_path, REFERENCE.replace("name: attr_value", f"name: {name}", 1)))
    assert feed.table.columns[4].name == name


@pytest.mark.parametrize("kind", ["DATETIME", "TIMESTAMP"])
def test_a_table_may_be_partitioned_by_a_time_of_which_files_have_the_column(tmp_path: Path, kind: str) -> None:
    table = read_feed(
        write(tmp_path, REFERENCE.replace("name: date, type: DATE", f"name: date, type: {kind}", 1))
    ).table
    found = table.to_contract()
    assert (found.date_type, found.keys_of_date) == (kind, ("date", "product_id", "store_id", "attribute_id"))
    assert found.columns_in_folders(date_folders=True) == {"update_id"}


def test_a_primary_key_of_too_many_columns_is_refused() -> None:
    """BigQuery's page "Use primary and foreign keys": at most 16 columns."""
    names = ["day", "id", *(f"key_{number}" for number in range(16))]
    types = {"day": "DATE"}
    values = {
        "columns": tuple({"name": name, "type": types.get(name, "INT64")} for name in names),
        "partition_column": "day",
        "snapshot_id_column": "id",
        "keys": tuple(name for name in names if name != "id"),
        "retention_days": 1,
    }
    assert not TableSettings.model_validate(values).primary_key
    with pytest.raises(ValidationError, match=r"\[17\] keys, BigQuery allows \[16\]"):
        TableSettings.model_validate(values | {"primary_key": True})


def read_freshness(folder: Path, line: str) -> FreshnessSettings:
    return read_feed(write(folder, REFERENCE.replace("sla_minutes: 60", line), "product_attributes")).freshness


def test_expected_arrivals_are_read(tmp_path: Path) -> None:
    line = 'sla_minutes: 60\n  expected_arrivals: {times: ["10:00", 02:00], zone: Europe/Berlin, grace_minutes: 5}'
    found = read_freshness(tmp_path, line).expected_arrivals
    assert str(found) == "times=('10:00', '02:00') zone='Europe/Berlin' grace_minutes=5"


@pytest.mark.parametrize(
    "name",
    [
        *("spark.jars", "spark.jars.packages", "spark.executor.memory", "spark.executor.instances"),
        *("spark.dynamicAllocation.maxExecutors", "sprak.sql.shuffle.partitions"),
    ],
)
def test_properties_that_a_feed_may_not_set_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        SparkSize(properties={name: "1"})
    assert SparkSize(properties={"spark.sql.shuffle.partitions": "64"}).properties


@pytest.mark.parametrize("size", [{"memory_gb_per_core": 8}, {"max_executors": 1}])
def test_sizes_that_no_service_supports_are_refused(size: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        SparkSize(**size)
