"""Reads the file that names the keys to erase, and defines the record of an erasure, which has only hashes of the keys.

A later or replayed snapshot may still contain an erased key. The dedup job finds the key's hash in the record, where it
is called a tombstone, and leaves the key's rows out.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import NUMERIC_CONTEXT, NUMERIC_DIGITS, NUMERIC_SCALE, Column, TableContract

MAX_KEYS = 10_000  # in one erasure, because the query that counts the keys' rows takes all keys as one parameter


@dataclass(frozen=True)
class Tombstone:
    """One erased key.

    - digest: a hexadecimal hash of the key's values. The hash depends on the feed's secret seed.
    - dates: the dates on which the key had rows.
    - absent_since: the id of the first snapshot after the erasure that was found to lack the key; None until then. If a
      later snapshot has the key again, the producer has made the key anew, and its rows are accepted.
    """

    digest: str
    dates: tuple[date, ...] = ()
    absent_since: int | None = None


@dataclass(frozen=True)
class Tombstones:
    """The erased keys of one erasure. `columns`: the key columns whose values identify the keys.

    `seed_id` and `hash_version` identify the seed and the hash functions that made the digests.
    """

    columns: tuple[str, ...]
    seed_id: int
    hash_version: int
    keys: tuple[Tombstone, ...]


@dataclass(frozen=True)
class ErasedRows:
    """The rows that the dedup job left out because their keys are erased.

    - rows: the number of these rows, by date.
    - delivered: the digests of erased keys that the newest applied delivery contains.
    - examined: the dates of the newest applied delivery, on which erased keys were looked for; empty in an erasure.
    - tombstones: the keys that this attempt erased; None unless the attempt is an erasure.
    """

    rows: dict[date, int]
    delivered: tuple[str, ...] = ()
    examined: tuple[date, ...] = ()
    tombstones: Tombstones | None = None


@dataclass(frozen=True)
class Erasure:
    """The record of one erasure (its certificate), written before its commit, and completed by the run's last task.

    - erased_at: when the record was written.
    - rows: how many rows of the live generation were erased, by date.
    - tables: the full names of the tables from which the rows were removed.
    - change_rows: how many rows of the keys were deleted from `FEED_changes`; None if there is no such table.
    - folders_to_delete: the folders of the state bucket whose files have, or may have, the rows; empty when all are
      deleted.
    - deleted_folders: the folders that were deleted; empty until all are.
    - deleted_at: when the last folder was deleted; None until then.

    These times are counted from `deleted_at`:

    - time_travel_ends: when BigQuery's time travel no longer reaches back to the rows.
    - fail_safe_ends: when BigQuery's fail-safe storage no longer contains the rows.
    - versions_end: when Cloud Storage deletes its last version of the deleted objects; None if it retains versions
      forever.
    """

    feed: str
    generation: int
    attempt: str
    run_id: str
    reason: str
    erased_at: datetime
    rows: dict[date, int]
    tombstones: Tombstones
    tables: tuple[str, ...] = ()
    change_rows: int | None = None
    folders_to_delete: tuple[str, ...] = ()
    deleted_at: datetime | None = None
    deleted_folders: tuple[str, ...] = ()
    time_travel_ends: datetime | None = None
    fail_safe_ends: datetime | None = None
    versions_end: datetime | None = None


@dataclass(frozen=True)
class KeysToErase:
    """The keys that an operator wants to erase. Each row has the values of `columns`, some of the key columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]


def erasable_columns(table: TableContract) -> tuple[str, ...]:
    """The key columns that a file of keys may name: all but the partition column, unless the table has no other key."""
    return tuple(name for name in table.keys if name != table.partition_column) or table.keys


def parse_keys(text: str, table: TableContract) -> KeysToErase:
    """Read the text of a CSV file whose header names key columns and whose other lines are one key each.

    Raises ConfigurationError if the text has another form, no key, or more than MAX_KEYS. The message quotes no value,
    because keys to erase must not get into logs.
    """
    # Not splitlines(), which drops line breaks inside quotes and also splits at other characters, such as U+2028.
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        lines = [(reader.line_num, line) for line in reader if line]
    except csv.Error as error:  # its message quotes no value
        raise ConfigurationError(
            f"Line [{reader.line_num}] of the file of keys is no CSV ({error}): close each quote, write a quote inside "
            f"a value twice, and let no value have more than [{csv.field_size_limit()}] characters."
        ) from None
    names, allowed = tuple(lines[0][1]) if lines else (), erasable_columns(table)
    if not names or len(set(names)) < len(names) or not set(names) <= set(allowed):
        raise ConfigurationError(
            f"The file of keys has no valid header: write a first line with some of the key columns "
            f"[{', '.join(allowed)}], each once, separated by commas."
        )
    if not 1 <= len(lines) - 1 <= MAX_KEYS:
        raise ConfigurationError(
            f"The file of keys names [{len(lines) - 1}] keys, expected 1 to {MAX_KEYS}: name some, or split the file."
        )
    columns = tuple(table.column(name) for name in names)
    rows = (_parse_row(columns, number, line) for number, line in lines[1:])
    return KeysToErase(columns, tuple(dict.fromkeys(rows)))


def _parse_row(columns: tuple[Column, ...], line_number: int, line: list[str]) -> tuple[Any, ...]:
    if len(line) != len(columns):
        raise ConfigurationError(
            f"Line [{line_number}] of the file of keys has [{len(line)}] values, expected [{len(columns)}], one for "
            f"each column of the header: correct it."
        )
    return tuple(_parse_value(column, line_number, text) for column, text in zip(columns, line, strict=True))


def _parse_value(column: Column, line_number: int, text: str) -> Any:
    parse, expected = _VALUES[column.type]
    value = None
    with contextlib.suppress(ArithmeticError, KeyError, ValueError):  # their messages would quote the value
        value = parse(text if column.type == "STRING" else text.strip())
    if value is None:
        raise ConfigurationError(
            f"Line [{line_number}] of the file of keys has no [{column.type}] in column [{column.name}]: write "
            f"{expected}."
        )
    return value


def _date(text: str) -> date | None:
    # Python also reads dates like 20260131, and numbers like 1_000. Here they are probably mistyped keys.
    value = date.fromisoformat(text)
    return value if value.isoformat() == text else None


def _numeric(text: str) -> Decimal | None:
    value = Decimal(text)
    # Raises InvalidOperation if there are too many digits before the point.
    in_scale = value.quantize(Decimal(1).scaleb(-NUMERIC_SCALE), context=NUMERIC_CONTEXT)
    return value if "_" not in text and value == in_scale else None


def _timestamp(text: str) -> datetime | None:
    value = datetime.fromisoformat(text)
    return None if value.tzinfo is None else value.astimezone(UTC)


def _local_time(text: str) -> datetime | None:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo is None and len(text) > len("YYYY-MM-DD") else None


def _integer(text: str) -> int | None:
    value = int(text)
    return value if "_" not in text and -(2**63) <= value < 2**63 else None


# By type: reads a value, and what a message says that a value must be.
_VALUES: dict[str, tuple[Callable[[str], Any], str]] = {
    "BOOL": (lambda text: {"true": True, "false": False}[text], "true or false"),
    "BYTES": (bytes.fromhex, "hexadecimal digits"),
    "DATE": (_date, "YYYY-MM-DD"),
    "DATETIME": (_local_time, "a time without a zone, such as 2026-01-31T12:00:00"),
    "INT64": (_integer, "an integer"),
    "NUMERIC": (_numeric, f"a number with {NUMERIC_DIGITS}"),
    "STRING": (str, "a text"),
    "TIMESTAMP": (_timestamp, "a time with its zone, such as 2026-01-31T12:00:00Z"),
}
