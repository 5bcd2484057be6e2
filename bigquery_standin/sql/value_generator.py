"""Writes literals, names, operators, casts, STRUCTs and arrays as DuckDB SQL.

SQLGlot parses typed constructors (`STRUCT<…>(…)`, `ARRAY<…>[…]`) as casts; they are refused. Where DuckDB converts
differently from BigQuery, a macro in `functions.sql` chooses the conversion by the type found at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from sqlglot import exp
from sqlglot.generators.duckdb import DuckDBGenerator

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue, quote_identifier, to_duckdb_type
from bigquery_standin.sql.literals import bytes_literal, int64_literal, string_literal, unsupported_when, value_literal
from bigquery_standin.sql.syntax import integer_literal, struct_field_name
from bigquery_standin.sql.type_parser import TableName, type_without_parameters

ResolveTable = Callable[[TableName, exp.Expression | None], str]

_PSEUDO_COLUMNS = ("_PARTITIONTIME", "_PARTITIONDATE", "_TABLE_SUFFIX")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_OPERATORS = (exp.Binary, exp.Not, exp.Neg, exp.Between, exp.In)
_PATHS = (exp.Column, exp.Dot, exp.Bracket)  # columns, their fields and elements


@dataclass(frozen=True)
class Context:
    """What the names in a text refer to; `transpile.to_duckdb` describes it.

    `parameters`: None if a text is only checked, before the values of parameters and variables are known.
    `has_columns`: whether a name may be a column; names of variables are then refused, because both may have it.
    """

    resolve_table: ResolveTable
    parameters: Mapping[str, QueryValue] | None
    variables: Mapping[str, QueryValue]  # by lower-case name
    now: datetime
    has_columns: bool = False


class ValueGenerator(DuckDBGenerator):
    """SQLGlot's generator for DuckDB, with a method for each node that means something else there than in BigQuery."""

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {}  # SQLGlot's own take precedence over methods

    def __init__(self, context: Context) -> None:
        super().__init__(dialect="duckdb", identify=True, comments=False)
        self.context = context

    def sql(self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True) -> str:
        """The SQL of a node, in parentheses if it is an operator: some have another precedence in DuckDB."""
        written = super().sql(expression, key, comment)
        is_operator = isinstance(expression, _OPERATORS) and not isinstance(expression, exp.Dot)
        return f"({written})" if key is None and is_operator else written

    # Values.

    def literal_sql(self, expression: exp.Literal) -> str:
        if expression.is_string:
            return string_literal(expression.name)
        if expression.name.isdigit():
            return int64_literal(int(expression.name))
        return f"CAST('{expression.name}' AS DOUBLE)"

    def rawstring_sql(self, expression: exp.RawString) -> str:
        return string_literal(expression.name)

    def bytestring_sql(self, expression: exp.ByteString) -> str:
        if "\\" in expression.name or not expression.name.isascii():
            raise NotImplementedConstruct("bytes literal with escapes: use FROM_HEX")
        return bytes_literal(expression.name.encode("ascii"))

    def parameter_sql(self, expression: exp.Parameter) -> str:
        if isinstance(expression.this, exp.Parameter):
            raise NotImplementedConstruct("system variable @@")
        value = self.known_value(expression)
        return "NULL" if value is None else value_literal(value)

    def known_value(self, node: exp.Parameter) -> QueryValue | None:
        """The value of a query parameter; None in a check. Raises InvalidQuery if the job has no such parameter."""
        if self.context.parameters is None:
            return None
        if node.name.lower() not in self.context.parameters:
            given = sorted(self.context.parameters)
            raise InvalidQuery(f"Query parameter '{node.name}' not found: parameters given are {given}")
        return self.context.parameters[node.name.lower()]

    # Names.

    def column_sql(self, expression: exp.Column) -> str:
        if isinstance(expression.this, exp.Star):
            owner = ".".join(quote_identifier(part.name) for part in expression.parts[:-1])
            return f"{owner}.{self.sql(expression.this)}"
        name = expression.parts[-1].name
        if name.upper() in _PSEUDO_COLUMNS:
            raise NotImplementedConstruct(f"pseudo column {name}")
        if len(expression.parts) == 1 and name.lower() in self.context.variables:
            if self.context.has_columns:
                raise NotImplementedConstruct(f"name {name} of a variable in a statement that has columns")
            return value_literal(self.context.variables[name.lower()])
        return ".".join(self.sql(part) for part in expression.parts)

    def dot_sql(self, expression: exp.Dot) -> str:
        if isinstance(expression.expression, exp.Star):
            raise NotImplementedConstruct("expression.*")
        if not isinstance(expression.expression, exp.Identifier):
            raise NotImplementedConstruct(f"function {expression.sql().split('(')[0]}")
        return f"({self.sql(expression.this)}).{self.sql(expression.expression)}"

    def star_sql(self, expression: exp.Star) -> str:
        if not isinstance(expression.parent, exp.Select | exp.Column):
            raise InvalidQuery('Syntax error: Unexpected "*"')
        excluded = expression.args.get("except_") or []
        expression.set("except_", [column.this for column in excluded])  # not columns, which may be variables
        return super().star_sql(expression)

    # Operators.

    def binary(self, expression: exp.Binary, op: str) -> str:
        if not isinstance(expression, _COMPARISONS):
            return super().binary(expression, op)
        _refuse_struct_comparison([expression.this, expression.expression])
        return f"{self.sql(expression.this)} {op} {self._compared(expression.this, expression.expression)}"

    def _compared(self, left: exp.Expr, right: exp.Expr) -> str:
        """SQL of the right operand of a comparison. It fails at run time for a STRUCT of another type than `left`.

        The condition is around the operand and not the comparison, so that DuckDB still recognizes an equality join.
        """
        if not (isinstance(left, _PATHS) and isinstance(right, _PATHS)):
            return self.sql(right)
        left_type, right_type = f"typeof({self.sql(left)})", f"typeof({self.sql(right)})"
        differs = f"{left_type} LIKE 'STRUCT%' AND {left_type} <> {right_type}"
        return f"({unsupported_when(differs, 'comparison of STRUCTs of different types', self.sql(right))})"

    def in_sql(self, expression: exp.In) -> str:
        _refuse_struct_comparison([expression.this, *expression.expressions])
        unnest, query = expression.args.get("unnest"), expression.args.get("query")
        if unnest:
            among = f"SELECT UNNEST({self.sql(unnest.expressions[0])})"
        elif query:
            among = self.sql(query.this if isinstance(query, exp.Subquery) else query)
        else:
            among = ", ".join(self._compared(expression.this, item) for item in expression.expressions)
        return f"{self.sql(expression.this)} IN ({among})"

    def like_sql(self, expression: exp.Like) -> str:
        negation = "NOT " if expression.args.get("negate") else ""
        return f"{self.sql(expression.this)} {negation}LIKE {self.sql(expression.expression)} ESCAPE '\\'"

    def mul_sql(self, expression: exp.Mul) -> str:
        factors = (expression.this, expression.expression)
        template = "{} * {}" if any(integer_literal(f) is not None for f in factors) else "own_multiply({}, {})"
        return template.format(*map(self.sql, factors))

    def div_sql(self, expression: exp.Div) -> str:
        return f"own_divide({self.sql(expression.this)}, {self.sql(expression.expression)})"

    def neg_sql(self, expression: exp.Neg) -> str:
        literal = integer_literal(expression)
        return int64_literal(literal) if literal is not None else f"- {self.sql(expression.this)}"

    def if_sql(self, expression: exp.If) -> str:
        false = expression.args.get("false")
        if false is None:
            raise NotImplementedConstruct("IF with two arguments")
        condition, true = self.sql(expression.this), self.sql(expression, "true")
        return f"CASE WHEN {condition} THEN {true} ELSE {self.sql(false)} END"

    # Casts, STRUCTs and arrays.

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        target, written = type_without_parameters(expression.to, "a cast"), self.sql(expression.this)
        if target.mode == "REPEATED" or target.type == "STRUCT":
            if not isinstance(expression.this, exp.Null):  # DuckDB would match the fields of a STRUCT by name
                raise NotImplementedConstruct(f"cast or constructor of type {target.sql_type()}")
        elif target.type in ("STRING", "INT64", "BOOL", "BYTES"):
            return f"own_to_{target.type.lower()}({written})"
        return f"CAST({written} AS {to_duckdb_type(target)})"

    def struct(self, items: Sequence[exp.Expr], names: Sequence[str] | None = None) -> str:
        """SQL of a DuckDB struct. `names`: the field names; None to infer them from the items as BigQuery does."""
        if not items:
            raise NotImplementedConstruct("STRUCT without fields")
        names = _inferred_names(items) if names is None else names
        if len(names) != len(items):
            raise InvalidQuery(f"STRUCT has [{len(items)}] fields, expected [{len(names)}]: {', '.join(names)}")
        if len({name.lower() for name in names}) != len(names):
            raise NotImplementedConstruct(f"STRUCT with a field name twice: {', '.join(names)}")
        values = [self.sql(item.this if isinstance(item, exp.Alias) else item) for item in items]
        pairs = (f"{quote_identifier(name)} := {value}" for name, value in zip(names, values, strict=True))
        return f"struct_pack({', '.join(pairs)})"

    def tuple_sql(self, expression: exp.Tuple) -> str:
        return self.struct(
            struct_items(expression) or [], [f"_field_{i + 1}" for i in range(len(expression.expressions))]
        )

    def array_sql(self, expression: exp.Array) -> str:
        items = expression.expressions
        if has_rows_of_query(expression):
            return f"ARRAY({self.sql(items[0])})"
        # BigQuery matches the fields of STRUCTs by position. DuckDB would make one field of each different name.
        structs = [struct_items(item) for item in items if not isinstance(item, exp.Null)]
        if any(structs) and len({fields and tuple(_inferred_names(fields)) for fields in structs}) > 1:
            raise NotImplementedConstruct("array of STRUCTs with different field names, or of STRUCTs and other values")
        return f"[{', '.join(map(self.sql, items))}]"

    def bracket_sql(self, expression: exp.Bracket) -> str:
        if len(expression.expressions) != 1:
            raise NotImplementedConstruct("array subscript of this form")
        position = self.sql(expression.expressions[0])
        index = position if expression.args.get("offset") == 1 else f"({position} + 1)"
        return f"own_{'safe_' if expression.args.get('safe') else ''}element({self.sql(expression.this)}, {index})"


def _refuse_struct_comparison(operands: list[exp.Expr]) -> None:
    """Refuses comparisons of a written STRUCT(…) or (a, b).

    BigQuery compares fields by position. For DuckDB, STRUCTs with different field names are unequal. Two columns with
    such STRUCTs are refused at run time, by the SQL of `_compared`.
    """
    if any(struct_items(operand) is not None for operand in operands):
        raise NotImplementedConstruct("comparison of a written STRUCT")


def _inferred_names(items: Sequence[exp.Expr]) -> list[str]:
    return [struct_field_name(item) or f"_field_{number}" for number, item in enumerate(items, start=1)]


def struct_items(node: exp.Expr) -> list[exp.Expr] | None:
    """The fields of `STRUCT(…)` or `(a, b)`; None for other expressions. Raises InvalidQuery for `(a AS b, …)`."""
    if isinstance(node, exp.Tuple) and any(isinstance(item, exp.Alias) for item in node.expressions):
        raise InvalidQuery("Syntax error: Unexpected keyword AS: only STRUCT(…) has field names")
    if isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.upper() == "STRUCT"):
        return list(node.expressions)
    return None


def has_rows_of_query(node: exp.Array) -> bool:
    """Whether the array has all rows of a query: ARRAY(SELECT …). In brackets, [(SELECT …)] has one element."""
    items = node.expressions
    return len(items) == 1 and isinstance(items[0], exp.Query) and not node.args.get("value_constructor")
