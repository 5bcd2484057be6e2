"""Lists supported scalar, aggregate and window functions by their names in BigQuery.

For each scalar function and number of arguments there is a template of DuckDB SQL: `{0}`, `{1}` stand for the
arguments. The key `"*"` means one or more arguments. In its template `*` stands for all of them, separated by commas;
the template `||` joins them with this operator; and the prefix `NULL_IF_ANY` makes the result NULL if any argument is
NULL.

The modules in `writer/` register handlers for functions that need more, such as those with date parts or formats. A
call of a function that is in neither place is refused. `transpile.supported_functions` lists all names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from devstack.bigquery.sql import farm_fingerprint
from devstack.bigquery.sql.field_types import NUMERIC_SCALE
from devstack.bigquery.sql.runtime_errors import error_sql, unsupported_sql

_BLOB_CONDITION = "typeof({0}) = 'BLOB'"
_AS_TEXT = "CAST({0} AS VARCHAR)"
_AS_BYTES = f"CASE WHEN {_BLOB_CONDITION} THEN CAST({_AS_TEXT} AS BLOB) ELSE encode({_AS_TEXT}) END"
# In DuckDB a product of NUMERIC has the decimal digits of both factors; BigQuery rounds it to nine, halves away from
# zero. Products of other types are rounded to 400 digits, which does not change them.
ROUNDED_PRODUCT = (
    f"round({{0}} * {{1}}, CASE WHEN typeof({{0}} * {{1}}) LIKE 'DECIMAL%' THEN {NUMERIC_SCALE} ELSE 400 END)"
)
_WHITESPACE = "[\\s\\pZ]+"
_LENGTH = f"CASE WHEN {_BLOB_CONDITION} THEN octet_length({_AS_BYTES}) ELSE length({_AS_TEXT}) END"
# The length of {0}: characters of a STRING, bytes of BYTES. It fails for an array: BigQuery refuses arrays here, but
# DuckDB's array_slice would cut them.
_SIZE = (
    "CASE WHEN typeof({0}) LIKE '%]' THEN "
    + error_sql("'No matching signature for a function of STRING or BYTES: ' || typeof({0})")
    + f" ELSE {_LENGTH} END"
)
# The beginning of a CASE that is NULL if {0} or {1} is NULL. Without it, `least` and `array_slice` would ignore NULL. A
# NULL literal has no type: the branch with '' makes the result a STRING.
_CUT_NULL = "CASE WHEN FALSE THEN '' WHEN {0} IS NULL OR {1} IS NULL THEN NULL "
# The position of the first character for the second argument of SUBSTR, which counts from the end if it is negative.
_FIRST = f"CASE WHEN {{1}} > 0 THEN {{1}} WHEN {{1}} = 0 OR -({{1}}) >= {_SIZE} THEN 1 ELSE {_SIZE} + {{1}} + 1 END"
_SUBSTRING_FROM = f"{_CUT_NULL}ELSE array_slice({{0}}, {_FIRST}, {_SIZE}) END"
_SUBSTRING_LENGTH = (
    f"{_CUT_NULL}WHEN {{2}} IS NULL THEN NULL "
    "WHEN {2} < 0 THEN " + error_sql("'Third argument in SUBSTR() cannot be negative'") + " "
    f"ELSE array_slice({{0}}, {_FIRST}, {_FIRST} - 1 + least({{2}}, {_SIZE})) END"
)
# SQL that fails, and the beginning of a CASE that evaluates it if the second argument is negative. `{name}` stands for
# the function's name.
_NEGATIVE = error_sql("'Second argument in {name}() cannot be negative'")
_FAIL_IF_NEGATIVE = f"CASE WHEN {{1}} < 0 THEN {_NEGATIVE} ELSE "


_NUMERIC_CONDITION = "typeof({0}) LIKE 'DECIMAL%' OR typeof({1}) LIKE 'DECIMAL%'"
_ZERO_STEP = error_sql("'Sequence step cannot be 0.'")


def _padded(name: str) -> Mapping[int | str, str]:
    """The templates of LPAD and RPAD."""
    call = f"{name.lower()}({{0}}, CAST({{1}} AS INTEGER), "
    negative = _FAIL_IF_NEGATIVE.replace("{name}", name)
    return {2: f"{negative}{call}' ') END", 3: f"{negative}{call}{{2}}) END"}


SCALAR: Mapping[str, Mapping[int | str, str]] = {
    "ABS": {1: "abs({0})"},
    "ARRAY_LENGTH": {1: "len({0})"},
    "ARRAY_TO_STRING": {
        2: "array_to_string({0}, {1})",
        3: "array_to_string(list_transform({0}, lambda _e: coalesce(_e, {2})), {1})",
    },
    "BYTE_LENGTH": {1: f"octet_length({_AS_BYTES})"},
    "CHAR_LENGTH": {1: "length({0})"},
    "COALESCE": {"*": "coalesce(*)"},
    "CONCAT": {"*": "||"},
    "ARRAY_CONCAT": {"*": "||"},
    "DIV": {2: f"CASE WHEN {_NUMERIC_CONDITION} THEN {unsupported_sql('DIV of NUMERIC')} ELSE {{0}} // {{1}} END"},
    "ENDS_WITH": {2: "ends_with({0}, {1})"},
    "ERROR": {1: error_sql("{0}")},
    "FARM_FINGERPRINT": {1: f"{farm_fingerprint.FUNCTION}({_AS_BYTES})"},
    "FROM_BASE64": {1: "from_base64({0})"},
    "FROM_HEX": {1: "unhex({0})"},
    "GENERATE_ARRAY": {
        2: "generate_series({0}, {1})",
        3: f"CASE WHEN {{2}} = 0 THEN {_ZERO_STEP} ELSE generate_series({{0}}, {{1}}, {{2}}) END",
    },
    "GREATEST": {"*": "NULL_IF_ANY greatest(*)"},
    "IFNULL": {2: "coalesce({0}, {1})"},
    "IS_INF": {1: "isinf(CAST({0} AS DOUBLE))"},
    "IS_NAN": {1: "isnan(CAST({0} AS DOUBLE))"},
    "LENGTH": {1: _LENGTH},
    "LOWER": {1: "lower({0})"},
    "LPAD": _padded("LPAD"),
    "LTRIM": {1: f"regexp_replace({{0}}, '^{_WHITESPACE}', '')", 2: "ltrim({0}, {1})"},
    "MD5": {1: f"unhex(md5({_AS_BYTES}))"},
    "MOD": {2: "({0} % {1})"},
    "NULLIF": {2: "nullif({0}, {1})"},
    "REGEXP_CONTAINS": {2: "regexp_matches({0}, {1})"},
    "REGEXP_REPLACE": {3: "regexp_replace({0}, {1}, {2}, 'g')"},
    "REPEAT": {2: _FAIL_IF_NEGATIVE.replace("{name}", "REPEAT") + "repeat({0}, {1}) END"},
    "REPLACE": {3: "CASE WHEN {1} = '' THEN {0} ELSE replace({0}, {1}, {2}) END"},
    "REVERSE": {1: "reverse({0})"},
    "RPAD": _padded("RPAD"),
    "RTRIM": {1: f"regexp_replace({{0}}, '{_WHITESPACE}$', '')", 2: "rtrim({0}, {1})"},
    "SHA256": {1: f"unhex(sha256({_AS_BYTES}))"},
    "SPLIT": {1: "string_split({0}, ',')", 2: "string_split({0}, {1})"},
    "STARTS_WITH": {2: "starts_with({0}, {1})"},
    "STRPOS": {2: "strpos({0}, {1})"},
    "SUBSTR": {2: _SUBSTRING_FROM, 3: _SUBSTRING_LENGTH},
    "TO_BASE64": {1: "to_base64({0})"},
    "TO_HEX": {1: "lower(hex({0}))"},
    "TRIM": {1: f"regexp_replace({{0}}, '^{_WHITESPACE}|{_WHITESPACE}$', '', 'g')", 2: "trim({0}, {1})"},
    "UNIX_DATE": {1: "date_diff('day', DATE '1970-01-01', CAST({0} AS DATE))"},
    "UNIX_MICROS": {1: "epoch_us(CAST({0} AS TIMESTAMPTZ))"},
    "UPPER": {1: "upper({0})"},
}


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function. `duckdb_name`: its name in DuckDB. `argument_counts`: the possible numbers of arguments.

    `first_argument`, `result`: templates, in which `{0}` stands for the first argument, or for the whole call.
    """

    duckdb_name: str
    argument_counts: tuple[int, ...] = (1,)
    first_argument: str = "{0}"
    result: str = "{0}"


# For NUMERIC, DuckDB returns FLOAT64 and BigQuery NUMERIC.
_FLOAT_ONLY = (
    "CASE WHEN typeof({0}) LIKE 'DECIMAL%' THEN "
    + unsupported_sql("AVG over NUMERIC")
    + " ELSE CAST({0} AS DOUBLE) END"
)


AGGREGATES: Mapping[str, Aggregate] = {
    "ANY_VALUE": Aggregate("any_value"),
    "ARRAY_AGG": Aggregate("list"),
    "AVG": Aggregate("avg", first_argument=_FLOAT_ONLY),
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
