"""SQLGlot's BigQuery dialect, changed so that it reads each statement that the stand-in carries out.

SQLGlot parses known calls into nodes of its own, and changes their meaning for other dialects. Here a call without a
syntax of its own stays a name with arguments (`exp.Anonymous`), so that `function_generator.py` decides which functions
are supported, and how.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.parsers.bigquery import BigQueryParser
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import NotImplementedConstruct

_SPECIAL_SYNTAX = ("ARRAY", "CAST", "SAFE_CAST", "EXTRACT")
_PROPERTIES = ("OPTIONS", "PARTITION BY", "CLUSTER BY")


class _Tokenizer(BigQuery.Tokenizer):
    # With SQLGlot's own set, everything after ELSEIF, CALL, EXPLAIN, … would be one opaque string.
    COMMANDS: ClassVar = set()


class ExpressionParser(BigQueryParser):
    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {name: BigQueryParser.FUNCTION_PARSERS[name] for name in _SPECIAL_SYNTAX}
    PROPERTY_PARSERS: ClassVar = {name: BigQueryParser.PROPERTY_PARSERS[name] for name in _PROPERTIES}
    PLACEHOLDER_PARSERS: ClassVar = {TokenType.PARAMETER: BigQueryParser.PLACEHOLDER_PARSERS[TokenType.PARAMETER]}

    def _parse_as_command(self, start: Token) -> exp.Command:
        raise NotImplementedConstruct(f"this form of {start.text.upper()}")

    def _parse_constraint(self) -> exp.Expr | None:
        """A constraint of a table, without a name: in BigQuery's DDL, CONSTRAINT can be the name of a column."""
        return self._parse_unnamed_constraint(constraints=self.SCHEMA_UNNAMED_CONSTRAINTS)


class StandInBigQuery(BigQuery):
    """The SQLGlot dialect in which the stand-in parses queries and expressions."""

    Tokenizer = _Tokenizer
    Parser = ExpressionParser


STAND_IN = StandInBigQuery()
