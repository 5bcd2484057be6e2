"""The file of keys to erase: what it may contain, and what its errors say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from dedup_clone.contract.erasure import parse_keys
from dedup_clone.contract.errors import ConfigurationError
from testkit.table_contracts import EVERY_KEY


@pytest.mark.parametrize("line", ['"secret', '"sec"ret', f'"{"secret" * 25_000}"'])
def test_a_line_that_is_no_csv_is_refused_without_its_value(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Line \[2\] of the file of keys is no CSV") as refused:
        parse_keys(f"name\n{line}", EVERY_KEY)
    assert "secret" not in str(refused.value)


def test_values_of_every_type_of_a_key() -> None:
    text = (
        "name,other_day,number,price,at,local,raw,flag\r\n"
        '"Müller, A.",2001-02-03,-7,1.50,2026-01-31T12:00:00+02:00,2026-01-31 12:00:00.5,00ff,true\r\n'
    )
    keys = parse_keys(text, EVERY_KEY)
    assert [column.name for column in keys.columns] == text.split("\r\n")[0].split(",")
    times = datetime(2026, 1, 31, 10, tzinfo=UTC), datetime(2026, 1, 31, 12, 0, 0, 500_000)  # noqa: DTZ001
    assert keys.rows == (("Müller, A.", date(2001, 2, 3), -7, Decimal("1.5"), *times, b"\x00\xff", True),)


@pytest.mark.parametrize("text", ["12345678901234567890", f"-{'9' * 29}.{'9' * 9}", "1e28", "0.000000001", "-0"])
def test_a_numeric_key_may_have_all_digits_of_the_type(text: str) -> None:
    assert parse_keys(f"price\n{text}\n", EVERY_KEY).rows == ((Decimal(text),),)


@pytest.mark.parametrize("text", ["1e29", "9" * 30, "0.0000000001", "NaN", "-Infinity", "x"])
def test_a_numeric_key_fits_the_type(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"has no \[NUMERIC\] in column \[price\]"):
        parse_keys(f"price\n{text}\n", EVERY_KEY)


def test_empty_lines_and_repeated_keys_do_not_count() -> None:
    assert parse_keys("\ufeffnumber\n7\n\n7\n8\n", EVERY_KEY).rows == ((7,), (8,))


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "a\u2028b", "a\x0bb"])
def test_a_quoted_key_may_contain_line_breaks(name: str) -> None:
    assert parse_keys(f'name\n"{name}"\n', EVERY_KEY).rows == ((name,),)


def test_an_error_counts_empty_lines() -> None:
    with pytest.raises(ConfigurationError, match=r"Line \[5\]"):
        parse_keys("number\n7\n\n\nx\n", EVERY_KEY)


@pytest.mark.parametrize("header", ["", "value", "day,number", "number,number", "number,nobody"])
def test_a_header_names_key_columns_without_the_date(header: str) -> None:
    with pytest.raises(ConfigurationError, match="number, name, raw"):
        parse_keys(f"{header}\n1,1\n", EVERY_KEY)


def test_the_date_is_a_key_where_it_is_the_only_one() -> None:
    only = replace(EVERY_KEY, keys=("day",))
    assert parse_keys("day\n2026-01-31\n", only).rows == ((date(2026, 1, 31),),)


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_file_has_some_keys_and_not_too_many(count: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"names \[{count}\] keys"):
        parse_keys("number\n" + "".join(f"{n}\n" for n in range(count)), EVERY_KEY)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("other_day", "31.01.2026"),
        ("number", "9223372036854775808"),
        ("price", "0.0000000001"),
        ("price", "NaN"),
        ("at", "2026-02-28T12:00:00"),
        ("local", "2026-02-28T12:00:00Z"),
        ("local", "2026-02-28"),
        ("raw", "xyz"),
        ("flag", "maybe"),
        ("number", "1,2"),
        ("number", "1_000"),
        ("price", "1_000.5"),
        ("other_day", "20260131"),
        ("other_day", "2026-W05-6"),
    ],
)
def test_a_wrong_value_is_named_by_its_line_and_never_quoted(column: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Line \[2\]") as caught:
        parse_keys(f"{column}\n{value}\n", EVERY_KEY)
    assert value not in str(caught.value)
