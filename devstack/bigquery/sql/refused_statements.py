"""Statements that GoogleSQL has and the stand-in does not carry out, refused by name."""

from __future__ import annotations

from devstack.bigquery.errors import NotImplementedConstruct
from devstack.bigquery.sql.tokens import Cursor

_BEGINNINGS = {
    ("BEGIN", "TRANSACTION"): "BEGIN TRANSACTION",
    ("BEGIN",): "BEGIN … END block",
    ("COMMIT",): "COMMIT TRANSACTION",
    ("ROLLBACK",): "ROLLBACK TRANSACTION",
    ("LOAD", "DATA"): "LOAD DATA",
    ("EXPORT", "DATA"): "EXPORT DATA",
    ("EXPORT", "MODEL"): "EXPORT MODEL",
    ("EXECUTE", "IMMEDIATE"): "EXECUTE IMMEDIATE",
    ("INSERT", "OVERWRITE"): "INSERT OVERWRITE",
    ("SET", "@"): "system variable @@",
}
_WORDS = {
    "LOOP",
    "WHILE",
    "REPEAT",
    "FOR",
    "CASE",
    "CALL",
    "RAISE",
    "RETURN",
    "LEAVE",
    "BREAK",
    "CONTINUE",
    "ITERATE",
    "GRANT",
    "REVOKE",
    "EXPLAIN",
    "DESCRIBE",
    "FROM",
    "UNDROP",
}


def refuse_statement(cursor: Cursor) -> None:
    """Raise if the statement that begins here is one of these."""
    for words, construct in _BEGINNINGS.items():
        if cursor.at(*words):
            raise NotImplementedConstruct(construct)
    if cursor.word() in _WORDS:
        raise NotImplementedConstruct(f"{cursor.word()} statement")
