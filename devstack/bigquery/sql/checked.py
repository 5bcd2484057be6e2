"""Trees that are known to be carried out: SQLGlot's parse of some tokens, checked node by node."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from devstack.bigquery.sql.dialect import parse_tokens
from devstack.bigquery.sql.strictness import refuse_foreign_tokens, refuse_reserved_names
from devstack.bigquery.sql.tokens import Cursor
from devstack.bigquery.sql.transpile import check


def parse_checked(cursor: Cursor, tokens: list[Token]) -> exp.Expression:
    """The tree of tokens that the cursor has stepped over."""
    if not tokens:
        raise cursor.unexpected()
    refuse_foreign_tokens(cursor.text, tokens)
    tree = parse_tokens(tokens, cursor.text, cursor.ordinals())
    refuse_reserved_names(tree)
    check(tree)
    return tree
