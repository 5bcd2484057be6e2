"""Parses scripts: SQLGlot's parsers read the statements, and here the parts of those for which it has no node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.ddl_options import check_options
from bigquery_standin.sql.query_generator import system_time
from bigquery_standin.sql.statement_checks import checked_statement
from bigquery_standin.sql.statements import (
    QUERY_TEXT,
    Assert,
    Call,
    CreateClone,
    CreateProcedure,
    CreateRowPolicy,
    Declare,
    DropRowPolicies,
    If,
    Statement,
)
from bigquery_standin.sql.syntax import ExpressionParser, StandInBigQuery
from bigquery_standin.sql.transpile import check
from bigquery_standin.sql.type_parser import TableName, table_name_of, type_without_parameters

_FIRST_WORDS = (
    *("(", "ALTER", "ASSERT", "CALL", "CREATE", "DECLARE", "DELETE", "DROP", "IF", "INSERT", "MERGE", "SELECT"),
    *("TRUNCATE", "UPDATE", "WITH"),
)


class StatementParser(ExpressionParser):
    """Parses a script. SQLGlot's parsers see its tokens up to the next `;` only, which always ends a statement."""

    def script_of(self, tokens: list[Token], text: str) -> tuple[Statement, ...]:
        self.reset()
        self._tokens, self.sql = tokens, text
        self._go_to(0)
        statements = self._statements(())
        if self._curr or not statements:
            self.raise_error("Expected a statement")
        return statements

    def _go_to(self, index: int) -> None:
        semicolons = (i for i in range(index, len(self._tokens)) if self._tokens[i].token_type is TokenType.SEMICOLON)
        self._index, self._tokens_size = index, next(semicolons, len(self._tokens))
        self._advance(0)

    def _statements(self, ends: tuple[str, ...]) -> tuple[Statement, ...]:
        """Statements up to the end of the script or of a branch. Each needs a `;`, except the last one of a script.

        `ends`: the words that end a branch; empty for a script.
        """
        statements: list[Statement] = []
        while self._tokens_size < len(self._tokens) or self._curr:
            if self._curr.text.upper() in ends:
                break
            statement = self._if() if self._match_text_seq("IF") else self._statement()
            if isinstance(statement, Declare) and (ends or not all(isinstance(one, Declare) for one in statements)):
                raise InvalidQuery("Variable declarations are allowed only at the start of a block or script")
            statements.append(statement)
            if self._curr or (ends and self._tokens_size == len(self._tokens)):
                self.raise_error('Expected ";"')
            self._go_to(min(self._tokens_size + 1, len(self._tokens)))
        return tuple(statements)

    def _if(self) -> If:
        condition = self._value()
        self._expect("THEN")
        then = self._statements(("ELSE", "END"))
        otherwise = self._statements(("END",)) if self._match_text_seq("ELSE") else ()
        self._expect("END", "IF")
        return If(condition, then, otherwise)

    def _statement(self) -> Statement:
        if self._curr.text.upper() not in _FIRST_WORDS:
            raise NotImplementedConstruct(f"{self._curr.text.upper()} statement")
        for words, parse in _STATEMENTS.items():
            index = self._index
            if self._match_text_seq(*words):
                statement = parse(self)
                if statement is not None:
                    return statement
                self._retreat(index)
        return checked_statement(self._parse_statement())

    def _create(self) -> Statement | None:
        replace = self._match_text_seq("OR", "REPLACE")
        for words, parse in _CREATED.items():
            if self._match_text_seq(*words):
                return parse(self, bool(replace), bool(self._match_text_seq("IF", "NOT", "EXISTS")))
        return None

    def _clone(self, replace: bool, if_not_exists: bool) -> CreateClone | None:
        name = self._table_name()
        if not self._match_text_seq("CLONE"):
            return None
        if if_not_exists:
            raise NotImplementedConstruct("CREATE TABLE IF NOT EXISTS … CLONE")
        source, version = self._table_name(), self._parse_version()
        time = None if version is None else system_time(version)
        if time is not None:
            check(time)
        return CreateClone(name, source, replace, time, self._options("table"))

    def _view(self, replace: bool, if_not_exists: bool) -> Statement:
        """Here, because SQLGlot's parser does not keep the text of the query."""
        name = self._parse_table_parts(schema=True)
        if self._match(TokenType.L_PAREN, advance=False):
            raise NotImplementedConstruct("CREATE VIEW with a column list")
        properties = exp.Properties(expressions=self._options("table"))
        self._expect("AS")
        start = self._curr
        query = self._parse_ddl_select()
        tree = exp.Create(
            this=name, kind="VIEW", replace=replace, exists=if_not_exists, properties=properties, expression=query
        )
        tree.meta[QUERY_TEXT] = self._find_sql(start, self._prev)
        return checked_statement(tree)

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
        self._value()
        text = self._find_sql(start, self._prev)
        self._expect(")")
        return CreateRowPolicy(name, table, tuple(grantees), text)

    def _procedure(self, replace: bool, if_not_exists: bool) -> CreateProcedure:
        if if_not_exists:
            raise NotImplementedConstruct("CREATE PROCEDURE IF NOT EXISTS")
        name = self._table_name()
        parameters = tuple(self._parse_wrapped_csv(self._parameter))
        self._expect("WITH", "CONNECTION")
        table = self._parse_table_parts(schema=True)
        connection = ".".join(part.name for part in table.parts) if table is not None else ""
        options = self._options("procedure")
        self._expect("LANGUAGE", "PYTHON")
        return CreateProcedure(name, parameters, connection, options, replace)

    def _parameter(self) -> tuple[str, str] | None:
        if self._match(TokenType.R_PAREN, advance=False):
            return None
        name, kind = self._name(), self._parse_types()
        if not isinstance(kind, exp.DataType):
            raise InvalidQuery(f"Syntax error: Expected a type of argument {name}")
        return name, type_without_parameters(kind, "an argument").sql_type()

    def _drop_policies(self) -> DropRowPolicies:
        return DropRowPolicies(self._table_name())

    def _call(self) -> Call:
        name = self._table_name()
        return Call(name, tuple(self._parse_wrapped_csv(self._argument)))

    def _argument(self) -> exp.Expression | None:
        return None if self._match(TokenType.R_PAREN, advance=False) else self._value()

    def _declare(self) -> Declare:
        names = self._parse_csv(self._name)
        kind = None if self._curr.token_type is TokenType.DEFAULT else self._parse_types()
        if not isinstance(kind, exp.DataType):
            raise NotImplementedConstruct("DECLARE without a type")
        field = type_without_parameters(kind, "a variable")
        if field.mode == "REPEATED" or field.type == "STRUCT":
            raise NotImplementedConstruct(f"variable of type {field.sql_type()}")
        return Declare(tuple(names), field, self._value() if self._match(TokenType.DEFAULT) else None)

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

    def _options(self, kind: str) -> Sequence[exp.Property]:
        properties = self._parse_properties()
        options = properties.expressions if properties else []
        check_options(options, kind)
        return options


_STATEMENTS: dict[tuple[str, ...], Callable[[StatementParser], Statement | None]] = {
    ("CREATE",): StatementParser._create,
    ("DROP", "ALL", "ROW", "ACCESS", "POLICIES", "ON"): StatementParser._drop_policies,
    ("CALL",): StatementParser._call,
    ("ASSERT",): StatementParser._assert,
    ("DECLARE",): StatementParser._declare,
}
_CREATED: dict[tuple[str, ...], Callable[[StatementParser, bool, bool], Statement | None]] = {
    ("TABLE",): StatementParser._clone,
    ("VIEW",): StatementParser._view,
    ("ROW", "ACCESS", "POLICY"): StatementParser._row_policy,
    ("PROCEDURE",): StatementParser._procedure,
}


class _StatementDialect(StandInBigQuery):
    Parser = StatementParser


STATEMENTS = _StatementDialect()
