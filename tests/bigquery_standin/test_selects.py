"""SELECTs return the rows of selects.sql, as does Google's reference implementation; refusals.sql is refused.

In selects.sql each SELECT stands on one line, and its rows as Python values on the next. A STRUCT is a tuple there.
Rows of a SELECT without ORDER BY may have any order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import SchemaField

from testkit.zetasql import ZetaSql
from tests.bigquery_standin.warehouse import Warehouse
from tests.thoroughness import every_third

FOLDER = Path(__file__).parent
# Google's type of a STRUCT without field names, or of NULL || text, cannot be seen in any value.
TYPES_DIFFER = ("SELECT STRUCT(1, 'x')", "SELECT CONCAT('a', NULL)")
TYPES = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL"}


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]  # as many parts as are needed


# The names that the rows in selects.sql use.
VALUES = {
    "date": date, "utc": utc, "civil": lambda *parts: utc(*parts).replace(tzinfo=None),
    "Decimal": Decimal, "NAN": math.nan, "INFINITY": math.inf,
}  # fmt: skip


def sections(name: str) -> dict[str, list[str]]:
    """The lines of a file by the headings before them, without comments, which begin with `--   `."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / name).read_text().splitlines():
        if line.startswith("-- "):
            if not line.startswith("--   "):
                lines = found[line.removeprefix("-- ")] = []
        elif line:
            lines.append(line)
    return found


def selects(lines: Sequence[str]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    rows = [eval(f"[{line.removeprefix('-->')}]", VALUES) for line in lines[1::2]]
    return list(zip(lines[::2], rows, strict=True))


SELECTS = {topic: selects(lines) for topic, lines in sections("selects.sql").items()}
CASES = [pytest.param(*case, id=f"{topic}: {case[0][:60]}") for topic, cases in SELECTS.items() for case in cases]
ASKED = [case for cases in SELECTS.values() for case in cases]
REFUSED = sections("refusals.sql")


def comparable(value: Any) -> Any:
    """Structs as tuples of values, NaN equal to itself."""
    if isinstance(value, Mapping):
        return tuple(comparable(item) for item in value.values())
    if isinstance(value, list | tuple):
        return type(value)(comparable(item) for item in value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


def in_order(text: str, rows: Any) -> list[Any]:
    found = [comparable(tuple(row)) for row in rows]
    return found if " ORDER BY " in text else sorted(found, key=repr)


def type_of(field: SchemaField) -> str:
    name = TYPES.get(field.field_type, field.field_type)
    if name == "RECORD":
        name = f"STRUCT<{', '.join(f'{part.name} {type_of(part)}' for part in field.fields)}>"
    return f"ARRAY<{name}>" if field.mode == "REPEATED" else name


@pytest.mark.parametrize(("text", "rows"), CASES)
def test_rows_are_the_expected_ones(shared: Warehouse, text: str, rows: Sequence[tuple[Any, ...]]) -> None:
    assert in_order(text, shared.rows(text)) == in_order(text, rows)


@pytest.mark.parametrize(("text", "rows"), every_third(ASKED))
def test_rows_and_types_are_those_of_the_reference_implementation(
    shared: Warehouse, zetasql: ZetaSql, text: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    answer = zetasql.evaluate(text)
    assert in_order(text, rows) == in_order(text, answer.rows)
    if not text.startswith(TYPES_DIFFER):
        assert tuple(map(type_of, shared.job(text).result().schema)) == answer.types


def test_all_of_it_is_googlesql(zetasql: ZetaSql) -> None:
    carried_out = [text for text, _ in ASKED]
    known = [text for kind in ("notImplemented", "notImplemented at run") for text in REFUSED[kind] if "|>" not in text]
    assert {text: zetasql.check(text) for text in (*carried_out, *known) if zetasql.check(text)} == {}
    assert [text for text in REFUSED["syntax"] if zetasql.check(text) is None] == []


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind in REFUSED for text in REFUSED[kind]], ids=lambda text: text[:60]
)
def test_what_is_not_carried_out_is_refused(shared: Warehouse, kind: str, text: str) -> None:
    """An unsupported construct fails as such, before it asks for a table that is not there."""
    with pytest.raises(GoogleAPICallError) as refused:
        shared.rows(text)
    reasons = ["notImplemented"] if kind.startswith("notImplemented") else ["invalidQuery", "invalid"]
    if kind == "syntax":  # SQLGlot does not tell a wrong word from a statement that it does not know
        reasons.append("notImplemented")
    assert refused.value.errors[0]["reason"] in reasons, refused.value.message
