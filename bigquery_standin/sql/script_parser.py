"""Parses the SQL text of a job.

Each query and expression is checked node by node, so that an unsupported construct is refused before anything runs.
Text that GoogleSQL does not accept may pass: `make check` asks Google's own grammar.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.sql.dml_parser import refuse_words
from bigquery_standin.sql.statement_parser import STATEMENTS, StatementParser
from bigquery_standin.sql.statements import Script
from bigquery_standin.sql.tokens import tokenize

MAXIMUM_CACHED_SCRIPTS = 256
Parsed = TypeVar("Parsed")


def parse_script(text: str) -> Script:
    """The statements of a job's text. The caller may change their trees.

    Raises InvalidQuery for text that GoogleSQL does not accept, NotImplementedConstruct for unsupported constructs.
    """
    return copy.deepcopy(parse_shared_script(text))


@lru_cache(maxsize=MAXIMUM_CACHED_SCRIPTS)
def parse_shared_script(text: str) -> Script:
    """As `parse_script`, but callers with the same text get the same trees, and so must not change them."""
    tokens = tokenize(text)
    refuse_words(tokens)
    return Script(_parsed(text, lambda parser: parser.script_of(tokens, text)), text)


def parse_predicate(text: str) -> exp.Expression:
    """One expression, such as the filter of a row access policy in a request. Raises as `parse_script` does."""
    return _parsed(text, lambda parser: parser.expression_of(tokenize(text), text))


def _parsed(text: str, parse: Callable[[StatementParser], Parsed]) -> Parsed:
    try:
        return parse(StatementParser(error_level=ErrorLevel.IMMEDIATE, dialect=STATEMENTS))
    except ParseError as error:
        first = error.errors[0]
        text_there = str(first.get("highlight") or "")
        column = max(1, int(first.get("col") or 1) - len(text_there) + 1)
        problem = f'{first.get("description")} near "{text_there}"'
        raise InvalidQuery(f"Syntax error: {problem}", first.get("line"), column) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # SQLGlot's parser fails with these on some malformed texts.
        raise InvalidQuery(f"Syntax error: the text cannot be read: {text[:100]}") from error
