"""Parses the statements for which SQLGlot has no node, with SQLGlot's parsers for their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.ddl_options import options_of
from bigquery_standin.sql.dialect import ExpressionParser, StandInBigQuery
from bigquery_standin.sql.query_generator import system_time
from bigquery_standin.sql.statements import (
    Assert,
    Call,
    CreateClone,
    CreateProcedure,
    CreateRowPolicy,
    CreateTable,
    Declare,
    DropRowPolicies,
    Options,
    ProcedureParameter,
    Statement,
    TableName,
    UndropSchema,
)
from bigquery_standin.sql.table_names import dataset_name, table_name_of
from bigquery_standin.sql.transpile import check
from bigquery_standin.sql.type_parser import type_without_parameters


class Own(exp.Expression):
    """`this`: the finished statement."""

    arg_types: ClassVar = {"this": True}


class StatementParser(ExpressionParser):
    """Parses one statement, query or expression. Statements without a node of SQLGlot's become an `Own`."""

    def _parse_statement(self) -> exp.Expr | None:
        for words, parse in _STATEMENTS.items():
            index = self._index
            if self._match_text_seq(*words):
                statement = parse(self)
                if statement is not None:
                    return Own(this=statement)
                self._retreat(index)
        return super()._parse_statement()

    def _create(self) -> Statement | None:
        replace = self._match_text_seq("OR", "REPLACE")
        for words, parse in _CREATED.items():
            if self._match_text_seq(*words):
                if_not_exists = self._match_text_seq("IF", "NOT", "EXISTS")
                if replace and if_not_exists:
                    raise InvalidQuery(f"CREATE {' '.join(words)} cannot have both OR REPLACE and IF NOT EXISTS")
                return parse(self, replace, if_not_exists)
        return None

    def _clone(self, replace: bool, if_not_exists: bool) -> CreateClone | None:
        name = self._table_name()
        if not self._match_text_seq("CLONE"):
            return None
        source, version = self._table_name(), self._parse_version()
        time = None if version is None else system_time(version)
        if time is not None:
            check(time)
        return CreateClone(name, source, replace, if_not_exists, time, self._options("table"))

    def _table_function(self, *_: bool) -> Statement | None:
        raise NotImplementedConstruct("TABLE FUNCTION")

    def _view(self, replace: bool, if_not_exists: bool) -> CreateTable:
        name = self._table_name()
        if self._match(TokenType.L_PAREN, advance=False):
            raise NotImplementedConstruct("CREATE VIEW with a column list")
        options = self._options("table")
        self._expect("AS")
        start = self._curr
        query = self._parse_ddl_select()
        if not isinstance(query, exp.Select | exp.SetOperation | exp.Subquery):
            raise InvalidQuery("Syntax error: CREATE VIEW needs a query after AS")
        check(query)
        text = self._find_sql(start, self._prev)
        return CreateTable(name, None, replace, if_not_exists, options=options, query=query, view=text)

    def _row_policy(self, replace: bool, if_not_exists: bool) -> CreateRowPolicy:
        if replace or if_not_exists:
            raise NotImplementedConstruct("CREATE ROW ACCESS POLICY with OR REPLACE or IF NOT EXISTS")
        name = self._name()
        self._expect("ON")
        table = self._table_name()
        grantees = self._parse_wrapped_csv(self._text) if self._match_text_seq("GRANT", "TO") else []
        self._expect("FILTER", "USING")
        self._expect("(")
        start = self._curr
        predicate = self._value()
        text = self._find_sql(start, self._prev)
        self._expect(")")
        return CreateRowPolicy(name, table, tuple(grantees), predicate, text)

    def _procedure(self, replace: bool, if_not_exists: bool) -> CreateProcedure:
        name = self._table_name()
        parameters = tuple(self._parse_wrapped_csv(self._parameter))
        names = [parameter.name.lower() for parameter in parameters]
        if len(set(names)) != len(names):
            raise InvalidQuery(f"CREATE PROCEDURE names an argument twice: {', '.join(names)}")
        if not self._match_text_seq("WITH", "CONNECTION"):
            raise NotImplementedConstruct("CREATE PROCEDURE in SQL")
        table = self._parse_table_parts(schema=True)
        connection = [part.name for part in table.parts] if table is not None else []
        if len(connection) != 3 or not all(connection):
            raise InvalidQuery(
                f"Invalid connection name [{'.'.join(connection)}]: expected PROJECT.LOCATION.CONNECTION"
            )
        options = self._options("procedure")
        self._expect("LANGUAGE")
        language = self._name().upper()
        if language != "PYTHON":
            raise NotImplementedConstruct(f"CREATE PROCEDURE LANGUAGE {language}")
        code = self._text() if self._match_text_seq("AS") else None
        project, location, name_of_connection = connection
        return CreateProcedure(
            name, parameters, (project, location, name_of_connection), options, code, replace, if_not_exists
        )

    def _parameter(self) -> ProcedureParameter | None:
        if self._match(TokenType.R_PAREN, advance=False):
            return None
        if self._curr.text.upper() in ("OUT", "INOUT") and self._next.text not in (",", ")"):
            raise NotImplementedConstruct(f"procedure argument mode {self._curr.text.upper()}")
        self._match_text_seq("IN")
        name, kind = self._name(), self._parse_types()
        if not isinstance(kind, exp.DataType):
            raise InvalidQuery(f"Syntax error: Expected a type of argument {name}")
        return ProcedureParameter(name, type_without_parameters(kind, "an argument").sql_type())

    def _drop_policies(self) -> DropRowPolicies:
        return DropRowPolicies(self._table_name())

    def _undrop(self) -> UndropSchema:
        if self._match_text_seq("IF"):
            raise NotImplementedConstruct("UNDROP SCHEMA IF NOT EXISTS")
        project, dataset = dataset_name(self._parse_table_parts(schema=True))
        return UndropSchema(dataset, self._options("schema"), project)

    def _call(self) -> Call:
        name = self._table_name()
        return Call(name, tuple(self._parse_wrapped_csv(self._argument)))

    def _argument(self) -> exp.Expression | None:
        return None if self._match(TokenType.R_PAREN, advance=False) else self._value()

    def _declare(self) -> Declare:
        names = self._parse_csv(self._name)
        kind = None if self._curr.token_type is TokenType.DEFAULT else self._parse_types()
        field = type_without_parameters(kind, "a variable") if isinstance(kind, exp.DataType) else None
        default = self._value() if self._match(TokenType.DEFAULT) else None
        if field is None and default is None:
            self.raise_error("Expected a type or keyword DEFAULT")
        return Declare(tuple(names), field, default)

    def _assert(self) -> Assert:
        condition = self._value()
        return Assert(condition, self._text() if self._match_text_seq("AS") else None)

    # Parts of statements.

    def _expect(self, *words: str) -> None:
        if not self._match_text_seq(*words):
            self.raise_error(f"Expected {' '.join(words)}")

    def _table_name(self) -> TableName:
        table = self._parse_table_parts(schema=True)
        if not isinstance(table, exp.Table):
            raise InvalidQuery("Syntax error: Expected the name of a table or procedure")
        return table_name_of(table)

    def _name(self) -> str:
        name = self._parse_id_var(any_token=False)
        if name is None:
            self.raise_error("Expected a name")
        return "" if name is None else name.name

    def _text(self) -> str:
        text = self._parse_string()
        if not isinstance(text, exp.Literal | exp.RawString):
            self.raise_error("Expected a string")
        return "" if text is None else text.name

    def _value(self) -> exp.Expression:
        value = self._parse_disjunction()
        if not isinstance(value, exp.Expression):
            raise InvalidQuery("Syntax error: Expected an expression")
        check(value)
        return value

    def _options(self, kind: str) -> Options:
        properties = self._parse_properties()
        return options_of([] if properties is None else properties.expressions, kind)


_STATEMENTS: dict[tuple[str, ...], Callable[[StatementParser], Statement | None]] = {
    ("CREATE",): StatementParser._create,
    ("DROP", "ALL", "ROW", "ACCESS", "POLICIES", "ON"): StatementParser._drop_policies,
    ("DROP", "TABLE", "FUNCTION"): StatementParser._table_function,
    ("UNDROP", "SCHEMA"): StatementParser._undrop,
    ("CALL",): StatementParser._call,
    ("ASSERT",): StatementParser._assert,
    ("DECLARE",): StatementParser._declare,
}
_CREATED: dict[tuple[str, ...], Callable[[StatementParser, bool, bool], Statement | None]] = {
    ("TABLE", "FUNCTION"): StatementParser._table_function,
    ("TABLE",): StatementParser._clone,
    ("VIEW",): StatementParser._view,
    ("ROW", "ACCESS", "POLICY"): StatementParser._row_policy,
    ("PROCEDURE",): StatementParser._procedure,
}


class StatementDialect(StandInBigQuery):
    """The SQLGlot dialect in which the stand-in parses statements."""

    Parser = StatementParser


STATEMENTS = StatementDialect()
