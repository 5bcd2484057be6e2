"""Writes literals, names and operators as DuckDB SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from sqlglot import exp
from sqlglot.generators.duckdb import DuckDBGenerator

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue, quote_identifier
from bigquery_standin.sql.literals import bytes_literal, int64_literal, string_literal, unsupported_when, value_literal
from bigquery_standin.sql.statements import TableName
from bigquery_standin.sql.syntax import integer_literal

ResolveTable = Callable[[TableName, exp.Expression | None], str]

FILE_NAME = "_FILE_NAME"  # the pseudo column of external tables
_PSEUDO_COLUMNS = ("_PARTITIONTIME", "_PARTITIONDATE", "_TABLE_SUFFIX")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_OPERATORS = (exp.Binary, exp.Not, exp.Neg, exp.BitwiseNot, exp.Between, exp.In)
_PATHS = (exp.Column, exp.Dot, exp.Bracket)  # columns, their fields and elements
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Context:
    """What the names in a text refer to; `transpile.to_duckdb` describes it.

    `parameters`: None if a text is only checked, before the values of parameters and variables are known.
    """

    resolve_table: ResolveTable
    parameters: Mapping[str, QueryValue] | None
    variables: Mapping[str, QueryValue]  # by lower-case name
    now: datetime
    shadowing_columns: Collection[str] = ()
    has_file_names: bool = False


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

    def hexstring_sql(self, expression: exp.HexString, binary_function_repr: str | None = None) -> str:
        return int64_literal(int(expression.name, 16))

    def parameter_sql(self, expression: exp.Parameter) -> str:
        if isinstance(expression.this, exp.Parameter):
            raise NotImplementedConstruct("system variable @@")
        value = self.known_value(expression)
        return "NULL" if value is None else value_literal(value)

    def known_value(self, node: exp.Expr) -> QueryValue | None:
        """The value of a query parameter or script variable; None in a check, and for any other expression.

        Raises InvalidQuery if the job has no such parameter.
        """
        if isinstance(node, exp.Column) and self._is_variable(node):
            return self.context.variables[node.name.lower()]
        if not isinstance(node, exp.Parameter) or self.context.parameters is None:
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
        if self._is_variable(expression):
            return self._variable(expression)
        if self.context.has_file_names and len(expression.parts) == 1 and _names_a_table(expression):
            raise NotImplementedConstruct(f"row of {name} as a value, in a query with {FILE_NAME}: name its columns")
        return ".".join(self.sql(part) for part in expression.parts)

    def _is_variable(self, column: exp.Column) -> bool:
        """Whether the name is that of a variable, and neither of a column nor of a table of the statement."""
        name = column.name.lower()
        is_free = name in self.context.variables and name not in self.context.shadowing_columns
        return is_free and len(column.parts) == 1

    def _variable(self, column: exp.Column) -> str:
        name = column.name.lower()
        for alias in column.root().find_all(exp.Alias):
            if alias.alias.lower() == name and all(found is not column for found in alias.find_all(exp.Column)):
                raise NotImplementedConstruct(f"name {name} for both a variable and a column alias of one statement")
        return value_literal(self.context.variables[name])

    def dot_sql(self, expression: exp.Dot) -> str:
        if isinstance(expression.expression, exp.Star):
            raise NotImplementedConstruct("expression.*")
        if not isinstance(expression.expression, exp.Identifier):
            raise NotImplementedConstruct(f"function {expression.sql().split('(')[0]}")
        return f"({self.sql(expression.this)}).{self.sql(expression.expression)}"

    def star_sql(self, expression: exp.Star) -> str:
        parent = expression.parent
        if not isinstance(parent, exp.Select | exp.Column):
            raise InvalidQuery('Syntax error: Unexpected "*"')
        joins = parent.args.get("joins") or [] if isinstance(parent, exp.Select) else []
        if any(join.args.get("using") for join in joins):  # BigQuery begins with these columns
            raise NotImplementedConstruct("SELECT * with JOIN … USING")
        if self.context.has_file_names:  # it would be one of the columns
            raise NotImplementedConstruct(f"* in a query with {FILE_NAME}: name the columns")
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
        if isinstance(expression.this, exp.Tuple) and not expression.expressions:
            raise NotImplementedConstruct("(a, b) IN a query or UNNEST")
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

    def add_sql(self, expression: exp.Add | exp.Sub) -> str:
        symbol = "+" if isinstance(expression, exp.Add) else "-"
        terms = (expression.this, expression.expression)
        small = [self._small_integer(term) for term in terms]
        # Only 32-bit integers can be added to a DATE in DuckDB, so a small number beside another expression, which may
        # be a DATE, has no cast to BIGINT.
        if None in small:
            written = [self.sql(term) if n is None else str(n) for term, n in zip(terms, small, strict=True)]
        else:
            written = [int64_literal(number) for number in small if number is not None]
        return f" {symbol} ".join(written)

    sub_sql = add_sql

    def _small_integer(self, node: exp.Expr) -> int | None:
        """The number, if it is known, not negative and fits 32 bits; None for other expressions."""
        number, value = integer_literal(node), self.known_value(node)
        if value is not None and value.field.type == "INT64" and isinstance(value.value, int):
            number = value.value
        return number if number is not None and 0 <= number <= _INT32_MAX else None

    def neg_sql(self, expression: exp.Neg) -> str:
        literal = integer_literal(expression)
        return int64_literal(literal) if literal is not None else f"- {self.sql(expression.this)}"

    def bitwisexor_sql(self, expression: exp.BitwiseXor) -> str:
        return f"xor({self.sql(expression.this)}, {self.sql(expression.expression)})"

    def bitwisenot_sql(self, expression: exp.BitwiseNot) -> str:
        return f"~{self.sql(expression.this)}"

    def if_sql(self, expression: exp.If) -> str:
        false = expression.args.get("false")
        if false is None:
            raise NotImplementedConstruct("IF with two arguments")
        condition, true = self.sql(expression.this), self.sql(expression, "true")
        return f"CASE WHEN {condition} THEN {true} ELSE {self.sql(false)} END"


def _names_a_table(column: exp.Column) -> bool:
    """Whether the path begins with the name of a table or subquery of the statement."""
    name = column.parts[0].name.lower()
    return any(source.alias_or_name.lower() == name for source in column.root().find_all(exp.Table, exp.Subquery))


def _refuse_struct_comparison(operands: list[exp.Expr]) -> None:
    """Refuses comparisons of a written STRUCT(…), and of a tuple with anything but a tuple.

    BigQuery compares fields by position. For DuckDB, STRUCTs with different field names are unequal. Two columns with
    such STRUCTs are refused at run time, by the SQL of `_compared`.
    """
    tuples = [isinstance(operand, exp.Tuple) for operand in operands]
    structs = [isinstance(operand, exp.Anonymous) and operand.name.upper() == "STRUCT" for operand in operands]
    if any(structs) or (any(tuples) and not all(tuples)):
        raise NotImplementedConstruct("comparison of STRUCT values other than (a, b) with (c, d)")
