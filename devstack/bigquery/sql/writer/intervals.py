"""Writes INTERVALs and parses date parts.

Weeks begin on Monday in DuckDB; in BigQuery on Sunday, or on the day that the query names.
"""

from __future__ import annotations

from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.writer.node_writer import Writer, construct_name

# By unit: the DuckDB function, the factor of the amount, and the type of the function's argument.
_UNITS = {
    "MICROSECOND": ("to_microseconds", 1, "BIGINT"),
    "MILLISECOND": ("to_milliseconds", 1, "BIGINT"),
    "SECOND": ("to_seconds", 1, "BIGINT"),
    "MINUTE": ("to_minutes", 1, "BIGINT"),
    "HOUR": ("to_hours", 1, "BIGINT"),
    "DAY": ("to_days", 1, "INTEGER"),
    "WEEK": ("to_days", 7, "INTEGER"),
    "MONTH": ("to_months", 1, "INTEGER"),
    "QUARTER": ("to_months", 3, "INTEGER"),
    "YEAR": ("to_months", 12, "INTEGER"),
}
TIME_UNITS = frozenset({"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR"})
DATE_UNITS = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})
_WEEK_DAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")


def interval_sql(writer: Writer, node: exp.Expr, units: frozenset[str] = TIME_UNITS | DATE_UNITS) -> str:
    """SQL of a DuckDB interval. `units`: those that the function around the INTERVAL accepts.

    Raises InvalidQuery for another unit, NotImplementedConstruct for anything but an INTERVAL with one supported unit,
    and for a literal amount that is not a whole number.
    """
    if not isinstance(node, exp.Interval):
        raise NotImplementedConstruct(f"{construct_name(node)} in place of INTERVAL")
    unit_node, amount = node.args.get("unit"), node.this
    if not isinstance(unit_node, exp.Var) or amount is None:
        raise NotImplementedConstruct("INTERVAL with several parts")
    unit = unit_node.name.upper()
    if unit not in _UNITS:
        raise NotImplementedConstruct(f"INTERVAL unit {unit}")
    if unit not in units:
        raise InvalidQuery(f"The unit of the INTERVAL is [{unit}], expected one of [{', '.join(sorted(units))}]")
    function, factor, kind = _UNITS[unit]
    if isinstance(amount, exp.Literal):
        if not amount.name.lstrip("-").isdigit():
            raise NotImplementedConstruct(f"INTERVAL of '{amount.name}'")
        return f"{function}(CAST({int(amount.name) * factor} AS {kind}))"
    return f"{function}(CAST(({writer.write(amount)}) * {factor} AS {kind}))"


def parse_date_part(node: exp.Expr) -> tuple[str, int]:
    """The part's name and, for WEEK, how many days after Monday a week begins; 0 for other parts.

    ISOWEEK is returned as WEEK that begins on Monday. Raises InvalidQuery for `WEEK(…)` without a weekday.
    """
    if isinstance(node, exp.Anonymous) and node.name.upper() == "WEEK" and len(node.expressions) == 1:
        day = node.expressions[0].name.upper()
        if day not in _WEEK_DAYS:
            raise InvalidQuery(f"A week begins on [{day}], expected one of [{', '.join(_WEEK_DAYS)}]")
        return "WEEK", _WEEK_DAYS.index(day)
    name = node.name.upper()
    if name == "WEEK":
        return "WEEK", _WEEK_DAYS.index("SUNDAY")
    return ("WEEK", 0) if name == "ISOWEEK" else (name, 0)
