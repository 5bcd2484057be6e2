"""Computes salted hashes of the keys of an erasure, by which queries find the keys' rows without naming a key."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from dedup_clone.contract.erasure import KeysToErase
from dedup_clone.contract.table import NUMERIC_CONTEXT

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def key_parameters(keys: KeysToErase) -> dict[str, tuple[str, str]]:
    """The parameters `salt` and `digests` of a query, with a new salt: name -> (type, value as text)."""
    salt = secrets.token_hex(16)
    digests = [hashlib.sha256(f"{salt}{key_text(keys, row)}".encode()).hexdigest() for row in keys.rows]
    return {"salt": ("STRING", salt), "digests": ("STRING", ",".join(digests))}


def key_text(keys: KeysToErase, row: tuple[Any, ...]) -> str:
    """The text of a key; the SQL of `warehouse/row_text_sql.py` gives the same text in BigQuery."""
    return "".join(f"{_text(column.type, value)};" for column, value in zip(keys.columns, row, strict=True))


def _text(kind: str, value: Any) -> str:
    match kind:
        case "BOOL":
            return str(value).lower()
        case "DATE":
            return str((value - _EPOCH.date()).days)
        case "TIMESTAMP":
            elapsed = value - _EPOCH
            return str((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds)
        case "NUMERIC":
            return f"{NUMERIC_CONTEXT.plus(Decimal(value).normalize(NUMERIC_CONTEXT)):f}"  # `plus` turns -0 into 0
        case "STRING":
            return f"{len(value.encode())}:{value}"
        case "BYTES":
            return str(value.hex())
    return str(value)
