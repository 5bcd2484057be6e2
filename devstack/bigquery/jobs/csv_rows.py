"""Parses CSV files into rows of a table. Source: "Loading CSV data from Cloud Storage", and REST resource jobs.

A file's columns are those of the job's schema, or else of the table's, in that order. A value that equals `nullMarker`
is NULL: by default, an empty value without quotes. BigQuery's pages do not say what an empty value in quotes is: here
it is an empty STRING or BYTES, and an error in a column of another type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from devstack.bigquery.bigquery_errors import Invalid, NotImplementedConstruct
from devstack.bigquery.jobs.gzip_files import uncompressed
from devstack.bigquery.jobs.value_conversions import CONVERSIONS
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.arrow_schema import UnstorableRow, conform, rows_to_table

_BOOLEANS = {
    **dict.fromkeys(("1", "true", "t", "yes", "y"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n"), False),
}
# What a text must match before it is converted, where Python's conversion accepts more than BigQuery does.
_PATTERNS = {
    "INT64": r"[+-]?\d+",
    "DATE": r"\d{4}-\d{2}-\d{2}",
    "DATETIME": r"\d{4}-\d{2}-\d{2}[ T]\d.*",
}
Value = tuple[str, bool]  # the text, and whether it was in quotes


@dataclass(frozen=True)
class CsvOptions:
    """How a file is written.

    `quote`: empty for a file without quotes. `leading_rows`: how many first rows are skipped. `quoted_newlines`:
    whether values in quotes may contain newlines.
    """

    delimiter: str = ","
    quote: str = '"'
    null_marker: str = ""
    leading_rows: int = 0
    quoted_newlines: bool = False


OPTION_NAMES = ("fieldDelimiter", "quote", "nullMarker", "skipLeadingRows", "allowQuotedNewlines")


def csv_options(configuration: Mapping[str, Any]) -> CsvOptions:
    """The options of a load job's configuration. Raises NotImplementedConstruct for an unsupported one."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(given := configuration.get("fieldDelimiter") or ",", given)
    quote = configuration.get("quote")
    quote = '"' if quote is None else quote
    for name, text in (("fieldDelimiter", delimiter), ("quote", quote)):
        if len(text) > 1 or not text.isascii():
            raise NotImplementedConstruct(f"load.{name} [{text}], which is not one ASCII character")
    return CsvOptions(
        delimiter,
        quote,
        configuration.get("nullMarker") or "",
        int(configuration.get("skipLeadingRows") or 0),
        bool(configuration.get("allowQuotedNewlines")),
    )


def parse_csv(
    uri: str, content: bytes, file_fields: Sequence[TableField], columns: Sequence[TableField], options: CsvOptions
) -> pa.Table:
    """The rows of a file, which may be compressed by gzip.

    `file_fields`: the fields of a line in the file. `columns`: the columns of the result, which are the table's. Raises
    Invalid for a damaged file, for nested or repeated `file_fields`, and for a row that does not fit.
    """
    nested = [field.name for field in file_fields if field.fields or field.mode == "REPEATED"]
    if nested:
        raise Invalid(f"CSV files cannot have nested or repeated fields: [{', '.join(nested)}]. File: {uri}")
    rows, number = [], 1
    try:
        text = uncompressed(uri, content).decode("utf-8", "replace").removeprefix("\ufeff")
        for record in _records(text, options):
            if number > options.leading_rows:
                rows.append(_row(record, file_fields, options))
            number += 1
        table = rows_to_table(rows, file_fields)
    except (ValueError, ArithmeticError) as error:
        if isinstance(error, UnstorableRow):
            number = options.leading_rows + error.position + 1
        raise Invalid(
            f"Error while reading data, error message: CSV processing encountered an error in row [{number}]: {error}. "
            f"File: {uri}"
        ) from error
    return conform(table, columns)


def _records(text: str, options: CsvOptions) -> Iterator[list[Value]]:
    """The rows of the text.

    Raises ValueError for a value in quotes that does not end, that goes on after its closing quote, or that contains a
    newline that the options do not allow.
    """
    quote, delimiter = re.escape(options.quote), re.escape(options.delimiter)
    plain, quoted = rf"(?P<plain>[^{delimiter}\r\n]*)", ""
    if quote:
        plain, quoted = f"(?!{quote}){plain}", rf"{quote}(?P<quoted>(?:[^{quote}]|{quote}{quote})*){quote}|"
    value = re.compile(rf"(?:{quoted}{plain})(?P<end>{delimiter}|\r\n|\n|\r|\Z)")
    record, position = list[Value](), 0
    while position < len(text) or record:
        found = value.match(text, position)
        if found is None:
            raise ValueError("a value in quotes does not end, or goes on after its closing quote")
        quoted_text = found.groupdict().get("quoted")
        if quoted_text is not None and not options.quoted_newlines and re.search(r"[\r\n]", quoted_text):
            raise ValueError("missing close quote character before the end of the line")
        if quoted_text is None:
            record.append((found["plain"], False))
        else:
            record.append((quoted_text.replace(2 * options.quote, options.quote), True))
        position = found.end()
        if found["end"] != options.delimiter:
            yield record
            record = []


def _row(record: Sequence[Value], fields: Sequence[TableField], options: CsvOptions) -> dict[str, Any]:
    if len(record) != len(fields):
        raise ValueError(f"found [{len(record)}] values, expected [{len(fields)}]")
    return {field.name: _value(value, field, options) for field, value in zip(fields, record, strict=True)}


def _value(value: Value, field: TableField, options: CsvOptions) -> Any:
    text, is_quoted = value
    if text == options.null_marker and (text or not is_quoted):
        return None
    convert = _CSV_CONVERSIONS.get(field.type) or CONVERSIONS[field.type]
    try:
        if not re.fullmatch(_PATTERNS.get(field.type, ".*"), text, re.DOTALL):
            raise ValueError(text)
        return convert(text)
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"could not parse [{text}] as [{field.type}] for field [{field.name}]") from error


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[text.lower()]


def _timestamp(text: str) -> Any:
    """The value of a text with a date and a time.

    Numbers of seconds or milliseconds are refused: BigQuery's pages do not say how they are told apart.
    """
    if not re.fullmatch(r"\d{4}[-/]\d{2}[-/]\d{2}[ T]\d{2}:\d{2}.*", text):
        raise ValueError(text)
    return CONVERSIONS["TIMESTAMP"](re.sub(r" (?=[+-]\d)", "", text.replace("/", "-")))


# The conversions that differ from those of other formats.
_CSV_CONVERSIONS: dict[str, Callable[[str], Any]] = {"BOOL": _boolean, "TIMESTAMP": _timestamp}
