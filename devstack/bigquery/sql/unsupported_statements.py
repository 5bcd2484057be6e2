"""Refuses, by name, the statements of GoogleSQL that the stand-in does not support."""

from __future__ import annotations

from devstack.bigquery.bigquery_errors import NotImplementedConstruct
from devstack.bigquery.sql.tokens import TokenCursor

_BEGINNINGS = {
    ("BEGIN", "TRANSACTION"): "BEGIN TRANSACTION",
    ("BEGIN", ";"): "BEGIN TRANSACTION",
    ("BEGIN",): "BEGIN … END block",
    ("COMMIT",): "COMMIT TRANSACTION",
    ("ROLLBACK",): "ROLLBACK TRANSACTION",
    ("LOAD", "DATA"): "LOAD DATA",
    ("EXPORT", "DATA"): "EXPORT DATA",
    ("EXPORT", "MODEL"): "EXPORT MODEL",
    ("EXECUTE", "IMMEDIATE"): "EXECUTE IMMEDIATE",
    ("INSERT", "OVERWRITE"): "INSERT OVERWRITE",
}
_WORDS = frozenset(
    """
    SET LOOP WHILE REPEAT FOR CASE RAISE RETURN LEAVE BREAK CONTINUE ITERATE GRANT REVOKE EXPLAIN DESCRIBE FROM
    """.split()  # noqa: SIM905  (a list of twenty lines reads worse)
)


def refuse_unsupported_statement(cursor: TokenCursor) -> None:
    """Raises NotImplementedConstruct if an unsupported statement begins here."""
    for words, construct in _BEGINNINGS.items():
        if cursor.at(*words):
            raise NotImplementedConstruct(construct)
    if cursor.word() in _WORDS:
        raise NotImplementedConstruct(f"{cursor.word()} statement")
