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
_UTC = "AT TIME ZONE 'UTC'"
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


def _checked_float(name: str, call: str, arguments: int = 1) -> str:
    """SQL of `call` that fails, as in BigQuery, if the arguments are finite and the result is infinite or NaN.

    `name`: the function's name in the error. `arguments`: how many arguments the call has.
    """
    positions = [f"{{{position}}}" for position in range(arguments)]
    finite_condition = " AND ".join(f"isfinite(CAST({position} AS DOUBLE))" for position in positions)
    listed = " || ', ' || ".join(f"CAST({position} AS VARCHAR)" for position in positions)
    failure = error_sql(f"'Floating point error in function: {name}(' || {listed} || ')'")
    return f"CASE WHEN {finite_condition} AND NOT isfinite({call}) THEN {failure} ELSE {call} END"


def _left_or_right(name: str, positions: str) -> str:
    """The template of LEFT or RIGHT.

    `positions`: SQL of the positions of the first and the last character or byte, counted from 1, with a comma between.
    """
    negative = _NEGATIVE.replace("{name}", name)
    return f"{_CUT_NULL}WHEN {{1}} < 0 THEN {negative} ELSE array_slice({{0}}, {positions}) END"


def _padded(name: str) -> Mapping[int | str, str]:
    """The templates of LPAD and RPAD."""
    call = f"{name.lower()}({{0}}, CAST({{1}} AS INTEGER), "
    negative = _FAIL_IF_NEGATIVE.replace("{name}", name)
    return {2: f"{negative}{call}' ') END", 3: f"{negative}{call}{{2}}) END"}


def _floor_micros(divisor: int) -> str:
    """The template of the number of whole units from 1970 to a time, rounded down, also for times before 1970.

    `divisor`: how many microseconds a unit has.
    """
    micros = "epoch_us(CAST({0} AS TIMESTAMPTZ))"
    return f"(({micros} - (({micros} % {divisor}) + {divisor}) % {divisor}) // {divisor})"


SCALAR: Mapping[str, Mapping[int | str, str]] = {
    "ABS": {1: "abs({0})"},
    "ARRAY_LENGTH": {1: "len({0})"},
    "ARRAY_REVERSE": {1: "list_reverse({0})"},
    "ARRAY_TO_STRING": {
        2: "array_to_string({0}, {1})",
        3: "array_to_string(list_transform({0}, lambda _e: coalesce(_e, {2})), {1})",
    },
    "BYTE_LENGTH": {1: f"octet_length({_AS_BYTES})"},
    "CHAR_LENGTH": {1: "length({0})"},
    "CHARACTER_LENGTH": {1: "length({0})"},
    "COALESCE": {"*": "coalesce(*)"},
    "CONCAT": {"*": "||"},
    "ARRAY_CONCAT": {"*": "||"},
    "DATE_FROM_UNIX_DATE": {1: "(DATE '1970-01-01' + CAST({0} AS INTEGER))"},
    "DIV": {2: f"CASE WHEN {_NUMERIC_CONDITION} THEN {unsupported_sql('DIV of NUMERIC')} ELSE {{0}} // {{1}} END"},
    "ENDS_WITH": {2: "ends_with({0}, {1})"},
    "ERROR": {1: error_sql("{0}")},
    "EXP": {1: _checked_float("EXP", "exp({0})")},
    "FARM_FINGERPRINT": {1: f"{farm_fingerprint.FUNCTION}({_AS_BYTES})"},
    "FROM_BASE64": {1: "from_base64({0})"},
    "FROM_HEX": {1: "unhex({0})"},
    "GENERATE_ARRAY": {
        2: "generate_series({0}, {1})",
        3: f"CASE WHEN {{2}} = 0 THEN {_ZERO_STEP} ELSE generate_series({{0}}, {{1}}, {{2}}) END",
    },
    "GREATEST": {"*": "NULL_IF_ANY greatest(*)"},
    "IEEE_DIVIDE": {2: "(CAST({0} AS DOUBLE) / CAST({1} AS DOUBLE))"},
    "IFNULL": {2: "coalesce({0}, {1})"},
    "IS_INF": {1: "isinf(CAST({0} AS DOUBLE))"},
    "IS_NAN": {1: "isnan(CAST({0} AS DOUBLE))"},
    "LEFT": {2: _left_or_right("LEFT", f"1, least({{1}}, {_SIZE})")},
    "LENGTH": {1: _LENGTH},
    "LN": {1: _checked_float("LN", "ln({0})")},
    "LOG10": {1: _checked_float("LOG10", "log10({0})")},
    "LOWER": {1: "lower({0})"},
    "LPAD": _padded("LPAD"),
    "LTRIM": {1: f"regexp_replace({{0}}, '^{_WHITESPACE}', '')", 2: "ltrim({0}, {1})"},
    "MD5": {1: f"unhex(md5({_AS_BYTES}))"},
    "MOD": {2: "({0} % {1})"},
    "NULLIF": {2: "nullif({0}, {1})"},
    "POW": {2: _checked_float("POW", "pow({0}, {1})", 2)},
    "POWER": {2: _checked_float("POWER", "pow({0}, {1})", 2)},
    "REGEXP_CONTAINS": {2: "regexp_matches({0}, {1})"},
    "REGEXP_REPLACE": {3: "regexp_replace({0}, {1}, {2}, 'g')"},
    "REPEAT": {2: _FAIL_IF_NEGATIVE.replace("{name}", "REPEAT") + "repeat({0}, {1}) END"},
    "REPLACE": {3: "CASE WHEN {1} = '' THEN {0} ELSE replace({0}, {1}, {2}) END"},
    "REVERSE": {1: "reverse({0})"},
    "RIGHT": {2: _left_or_right("RIGHT", f"{_SIZE} - least({{1}}, {_SIZE}) + 1, {_SIZE}")},
    "RPAD": _padded("RPAD"),
    "RTRIM": {1: f"regexp_replace({{0}}, '{_WHITESPACE}$', '')", 2: "rtrim({0}, {1})"},
    "SAFE_ADD": {2: "TRY({0} + {1})"},
    "SAFE_MULTIPLY": {2: f"TRY({ROUNDED_PRODUCT})"},
    "SAFE_SUBTRACT": {2: "TRY({0} - {1})"},
    "SHA256": {1: f"unhex(sha256({_AS_BYTES}))"},
    "SPLIT": {1: "string_split({0}, ',')", 2: "string_split({0}, {1})"},
    "SQRT": {1: _checked_float("SQRT", "sqrt({0})")},
    "STARTS_WITH": {2: "starts_with({0}, {1})"},
    "STRPOS": {2: "strpos({0}, {1})"},
    "SUBSTR": {2: _SUBSTRING_FROM, 3: _SUBSTRING_LENGTH},
    "SUBSTRING": {2: _SUBSTRING_FROM, 3: _SUBSTRING_LENGTH},
    "TIMESTAMP_MICROS": {1: f"(make_timestamp({{0}}) {_UTC})"},
    "TIMESTAMP_MILLIS": {1: f"(make_timestamp({{0}} * 1000) {_UTC})"},
    "TIMESTAMP_SECONDS": {1: f"(make_timestamp({{0}} * 1000000) {_UTC})"},
    "TO_BASE64": {1: "to_base64({0})"},
    "TO_HEX": {1: "lower(hex({0}))"},
    "TRIM": {1: f"regexp_replace({{0}}, '^{_WHITESPACE}|{_WHITESPACE}$', '', 'g')", 2: "trim({0}, {1})"},
    "UNIX_DATE": {1: "date_diff('day', DATE '1970-01-01', CAST({0} AS DATE))"},
    "UNIX_MICROS": {1: "epoch_us(CAST({0} AS TIMESTAMPTZ))"},
    "UNIX_MILLIS": {1: _floor_micros(1000)},
    "UNIX_SECONDS": {1: _floor_micros(1_000_000)},
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


_FLOAT_ONLY = (
    "CASE WHEN typeof({0}) LIKE 'DECIMAL%' THEN "
    + unsupported_sql("{name} over NUMERIC")
    + " ELSE CAST({0} AS DOUBLE) END"
)


def _over_floats(name: str, duckdb_name: str) -> Aggregate:
    """For NUMERIC, DuckDB returns FLOAT64 and BigQuery NUMERIC, so NUMERIC is refused at run time."""
    return Aggregate(duckdb_name, first_argument=_FLOAT_ONLY.replace("{name}", name))


AGGREGATES: Mapping[str, Aggregate] = {
    "ANY_VALUE": Aggregate("any_value"),
    "APPROX_COUNT_DISTINCT": Aggregate("count"),  # of distinct values: the exact count is a valid approximation
    "ARRAY_AGG": Aggregate("list"),
    "AVG": _over_floats("AVG", "avg"),
    "BIT_AND": Aggregate("bit_and"),
    "BIT_OR": Aggregate("bit_or"),
    "BIT_XOR": Aggregate("bit_xor"),
    "COUNT": Aggregate("count"),
    "COUNTIF": Aggregate("count_if", result="CAST(COALESCE({0}, 0) AS BIGINT)"),
    "LOGICAL_AND": Aggregate("bool_and"),
    "LOGICAL_OR": Aggregate("bool_or"),
    "MAX": Aggregate("max"),
    "MAX_BY": Aggregate("arg_max_null", (2,)),
    "MIN": Aggregate("min"),
    "MIN_BY": Aggregate("arg_min_null", (2,)),
    "STDDEV": _over_floats("STDDEV", "stddev_samp"),
    "STDDEV_POP": _over_floats("STDDEV_POP", "stddev_pop"),
    "STDDEV_SAMP": _over_floats("STDDEV_SAMP", "stddev_samp"),
    "STRING_AGG": Aggregate("string_agg", (1, 2)),
    "SUM": Aggregate("sum"),
    "VARIANCE": _over_floats("VARIANCE", "var_samp"),
    "VAR_POP": _over_floats("VAR_POP", "var_pop"),
    "VAR_SAMP": _over_floats("VAR_SAMP", "var_samp"),
}

QUANTILES = "APPROX_QUANTILES"  # written by a handler of its own
AGGREGATE_NAMES = frozenset({*AGGREGATES, QUANTILES})

# Window functions, named as in DuckDB: the possible numbers of arguments, and whether ORDER BY is required.
WINDOW: Mapping[str, tuple[tuple[int, ...], bool]] = {
    "CUME_DIST": ((0,), True),
    "DENSE_RANK": ((0,), True),
    "FIRST_VALUE": ((1,), True),
    "LAG": ((1, 2, 3), True),
    "LAST_VALUE": ((1,), True),
    "LEAD": ((1, 2, 3), True),
    "NTH_VALUE": ((2,), True),
    "NTILE": ((1,), True),
    "PERCENT_RANK": ((0,), True),
    "RANK": ((0,), True),
    "ROW_NUMBER": ((0,), False),
}
