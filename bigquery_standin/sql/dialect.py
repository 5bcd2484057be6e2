"""Changes SQLGlot's BigQuery dialect so that it does not interpret function calls.

SQLGlot parses known calls into nodes of its own, and changes their meaning for other dialects. Here a call without a
syntax of its own stays a name with arguments (`exp.Anonymous`), so that `function_generator.py` decides which functions
are supported, and how.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parsers.bigquery import BigQueryParser
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import InvalidQuery

_SPECIAL_SYNTAX = ("ARRAY", "CAST", "SAFE_CAST", "EXTRACT")


class _Tokenizer(BigQuery.Tokenizer):
    # With SQLGlot's own set, everything after ELSEIF, CALL, EXPLAIN, … would be one opaque string.
    COMMANDS: ClassVar = set()


class _Parser(BigQueryParser):
    FUNCTIONS: ClassVar = {}
    # A `?` first gets its offset in the text as its name. `parse_tokens` replaces this by the parameter's number.
    PLACEHOLDER_PARSERS: ClassVar = {
        **BigQueryParser.PLACEHOLDER_PARSERS,
        TokenType.PLACEHOLDER: lambda self: self.expression(exp.Placeholder(this=str(self._prev.start))),
    }
    FUNCTION_PARSERS: ClassVar = {name: BigQueryParser.FUNCTION_PARSERS[name] for name in _SPECIAL_SYNTAX}


class StandInBigQuery(BigQuery):
    """The SQLGlot dialect in which the stand-in parses all SQL that it gets."""

    Tokenizer = _Tokenizer
    Parser = _Parser


STAND_IN = StandInBigQuery()


def parse_tokens(tokens: list[Token], text: str, ordinals: Mapping[int, int]) -> exp.Expression:
    """Parses one query or expression from some of a text's tokens. Positions in errors refer to the whole text.

    `ordinals`: the number of each positional parameter in the text, by the parameter's offset. Raises InvalidQuery
    for a syntax error.
    """
    try:
        trees = STAND_IN.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    except ParseError as error:
        first = error.errors[0]
        text_there = str(first.get("highlight") or "")
        column = max(1, int(first.get("col") or 1) - len(text_there) + 1)
        raise InvalidQuery(f'Syntax error near "{text_there}"', first.get("line"), column) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # SQLGlot's parser fails with these on some malformed texts.
        line, column = tokens[0].line, max(1, tokens[0].col - len(tokens[0].text) + 1)
        raise InvalidQuery("Syntax error: this statement cannot be read", line, column) from error
    if len(trees) != 1 or trees[0] is None:
        raise InvalidQuery("Syntax error: Unexpected end of statement")
    tree = trees[0]
    assert isinstance(tree, exp.Expression)  # parsers return nothing else
    for placeholder in tree.find_all(exp.Placeholder):
        offset = int(placeholder.name) if placeholder.name.isdigit() else -1
        if offset not in ordinals:  # SQLGlot also reads `:x` as a placeholder
            raise InvalidQuery('Syntax error: Unexpected ":"')
        placeholder.set("this", str(ordinals[offset]))
    return tree
