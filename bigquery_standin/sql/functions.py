"""Lists the functions that the stand-in supports, by their names in BigQuery.

The scalar functions are the macros in functions.sql. The modules in `writer/` register handlers for functions that need
more, such as those with date parts or formats. A call of any other function is refused.
`transpile.supported_functions` lists all names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MACROS = Path(__file__).with_name("functions.sql").read_text(encoding="utf-8")
_MACRO = re.compile(r"^CREATE MACRO bq_(\w+)(.*?);$", re.DOTALL | re.MULTILINE)
_ARGUMENTS = re.compile(r"^ *\(([\w, ]*)\) AS\s", re.MULTILINE)


def _argument_counts(definitions: str) -> frozenset[int]:
    return frozenset(arguments.count(",") + 1 for arguments in _ARGUMENTS.findall(definitions))


# By name: the possible numbers of arguments.
SCALAR: Mapping[str, frozenset[int]] = {
    macro[1].upper(): _argument_counts(macro[2]) for macro in _MACRO.finditer(MACROS)
}
VARIADIC = frozenset({"ARRAY_CONCAT", "COALESCE", "CONCAT", "GREATEST"})  # one or more arguments


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function. `duckdb_name`: its name in DuckDB. `argument_counts`: the possible numbers of arguments.

    `first_argument`, `result`: templates, in which `{0}` stands for the first argument, or for the whole call.
    """

    duckdb_name: str
    argument_counts: tuple[int, ...] = (1,)
    first_argument: str = "{0}"
    result: str = "{0}"


AGGREGATES: Mapping[str, Aggregate] = {
    "ANY_VALUE": Aggregate("any_value"),
    "ARRAY_AGG": Aggregate("list"),
    "AVG": Aggregate("avg", first_argument="own_float('AVG', {0}, CAST({0} AS DOUBLE))"),
    "COUNT": Aggregate("count"),
    "COUNTIF": Aggregate("count_if", result="CAST(COALESCE({0}, 0) AS BIGINT)"),
    "LOGICAL_AND": Aggregate("bool_and"),
    "LOGICAL_OR": Aggregate("bool_or"),
    "MAX": Aggregate("max"),
    "MIN": Aggregate("min"),
    "STRING_AGG": Aggregate("string_agg", (1, 2)),
    "SUM": Aggregate("sum"),
}

# Window functions, named as in DuckDB: the possible numbers of arguments, and whether ORDER BY is required.
WINDOW: Mapping[str, tuple[tuple[int, ...], bool]] = {
    "DENSE_RANK": ((0,), True),
    "FIRST_VALUE": ((1,), True),
    "LAG": ((1, 2, 3), True),
    "LAST_VALUE": ((1,), True),
    "LEAD": ((1, 2, 3), True),
    "RANK": ((0,), True),
    "ROW_NUMBER": ((0,), False),
}
