"""The file of keys to erase: what it may contain, and what its errors say."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from dedup_clone.contract.erasure import parse_keys
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import Column, TableContract

TABLE = TableContract(
    columns=(
        Column("day", "DATE"),
        Column("name", "STRING"),
        Column("born", "DATE"),
        Column("code", "INT64"),
        Column("price", "NUMERIC"),
        Column("seen_at", "TIMESTAMP"),
        Column("raw", "BYTES"),
        Column("flag", "BOOL"),
        Column("value", "INT64"),
        Column("version", "INT64"),
    ),
    partition_column="day",
    snapshot_id_column="version",
    keys=("day", "name", "born", "code", "price", "seen_at", "raw", "flag"),
    cluster_by=(),
    retention_days=30,
)


@pytest.mark.parametrize("line", ['"secret', '"sec"ret', f'"{"secret" * 25_000}"'])
def test_a_line_that_is_no_csv_is_refused_without_its_value(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Line \[2\] of the file of keys is no CSV") as refused:
        parse_keys(f"name\n{line}", TABLE)
    assert "secret" not in str(refused.value)


def test_values_of_every_type_of_a_key() -> None:
    text = (
        "name,born,code,price,seen_at,raw,flag\r\n"
        '"Müller, A.",2001-02-03,-7,1.50,2026-01-31T12:00:00+02:00,00ff,true\r\n'
    )
    keys = parse_keys(text, TABLE)
    assert [column.name for column in keys.columns] == ["name", "born", "code", "price", "seen_at", "raw", "flag"]
    moment = datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert keys.rows == (("Müller, A.", date(2001, 2, 3), -7, Decimal("1.5"), moment, b"\x00\xff", True),)


@pytest.mark.parametrize("text", ["12345678901234567890", f"-{'9' * 29}.{'9' * 9}", "1e28", "0.000000001", "-0"])
def test_a_numeric_key_may_have_all_digits_of_the_type(text: str) -> None:
    assert parse_keys(f"price\n{text}\n", TABLE).rows == ((Decimal(text),),)


@pytest.mark.parametrize("text", ["1e29", "9" * 30, "0.0000000001", "NaN", "-Infinity", "x"])
def test_a_numeric_key_fits_the_type(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"has no \[NUMERIC\] in column \[price\]"):
        parse_keys(f"price\n{text}\n", TABLE)


def test_empty_lines_and_repeated_keys_do_not_count() -> None:
    assert parse_keys("\ufeffcode\n7\n\n7\n8\n", TABLE).rows == ((7,), (8,))


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "a\u2028b", "a\x0bb"])
def test_a_quoted_key_may_contain_line_breaks(name: str) -> None:
    assert parse_keys(f'name\n"{name}"\n', TABLE).rows == ((name,),)


def test_an_error_counts_empty_lines() -> None:
    with pytest.raises(ConfigurationError, match=r"Line \[5\]"):
        parse_keys("code\n7\n\n\nx\n", TABLE)


@pytest.mark.parametrize("header", ["", "value", "day,code", "code,code", "code,nobody"])
def test_a_header_names_key_columns_without_the_date(header: str) -> None:
    with pytest.raises(ConfigurationError, match="name, born, code"):
        parse_keys(f"{header}\n1,1\n", TABLE)


def test_the_date_is_a_key_where_it_is_the_only_one() -> None:
    only = TableContract(TABLE.columns, "day", "version", ("day",), (), 30)
    assert parse_keys("day\n2026-01-31\n", only).rows == ((date(2026, 1, 31),),)


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_file_has_some_keys_and_not_too_many(count: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"names \[{count}\] keys"):
        parse_keys("code\n" + "".join(f"{n}\n" for n in range(count)), TABLE)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("born", "31.01.2026"),
        ("code", "9223372036854775808"),
        ("price", "0.0000000001"),
        ("price", "NaN"),
        ("seen_at", "2026-02-28T12:00:00"),
        ("raw", "xyz"),
        ("flag", "maybe"),
        ("code", "1,2"),
        ("code", "1_000"),
        ("price", "1_000.5"),
        ("born", "20260131"),
        ("born", "2026-W05-6"),
    ],
)
def test_a_wrong_value_is_named_by_its_line_and_never_quoted(column: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Line \[2\]") as caught:
        parse_keys(f"{column}\n{value}\n", TABLE)
    assert value not in str(caught.value)
