"""Makes the Parquet files of this folder, with writers that the lock does not have.

`python -m venv V && V/bin/pip install datafusion polars && V/bin/python make.py ROWS.parquet`; ROWS.parquet has the
rows of `file_catalogue.expected`. Each file has them on a date of its own. DataFusion writes with arrow-rs, polars with
a writer of its own. Files of pyarrow are those that its older versions read, but do not write.
"""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import datafusion
import polars
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent
DATAFUSION = {
    "default": {},
    "version_2": {"writer_version": "2.0"},
    "delta_length": {"encoding::note": "delta_length_byte_array", "dictionary_enabled": "false"},
    "delta_texts": {"encoding::note": "delta_byte_array", "dictionary_enabled": "false", "writer_version": "2.0"},
    "bloom_filters": {"bloom_filter_on_write": "true", "statistics_enabled": "page", "max_row_group_size": "2"},
    "no_arrow_schema": {"skip_arrow_metadata": "true", "compression": "gzip(6)"},
}
POLARS: dict[str, dict[str, Any]] = {
    "default": {},
    "small_groups": {"row_group_size": 2, "compression": "snappy", "statistics": "full"},
    "no_statistics": {"statistics": False, "compression": "uncompressed"},
}
# Arrow types that only the Arrow schema tells of: Parquet has plain texts, bytes, numbers and lists.
HINTS: dict[str, dict[str, pa.DataType]] = {
    "views": {"note": pa.string_view(), "raw": pa.binary_view()},
    "list_view": {"marks": pa.list_view(pa.float64())},
    "large_list_view": {"tags": pa.large_list_view(pa.string())},
    "fixed_size_list": {"marks": pa.list_(pa.float64(), 2)},
    "tensor": {"marks": pa.fixed_shape_tensor(pa.float64(), [2])},
    "extension": {
        "note": pa.opaque(pa.string(), "json", "a database"),
        "small": pa.opaque(pa.int64(), "id", "a database"),
    },
    "dictionaries": {
        "note": pa.dictionary(pa.int8(), pa.string()),
        "tags": pa.list_(pa.dictionary(pa.int32(), pa.string())),
    },
}


def main(rows: str) -> None:
    day = dt.date(2027, 1, 1)
    for name, options in DATAFUSION.items():
        context = datafusion.SessionContext()
        context.register_parquet("rows", rows)
        settings = ", ".join(f"'format.{key}' '{value}'" for key, value in options.items())
        context.sql(
            f"COPY (SELECT * REPLACE (DATE '{day}' AS day) FROM rows) TO '{FOLDER}/datafusion-{name}.parquet' "
            f"STORED AS PARQUET" + (f" OPTIONS ({settings})" if settings else "")
        ).collect()
        day += dt.timedelta(days=1)
    for name, options in POLARS.items():
        on_date = polars.read_parquet(rows).with_columns(day=polars.lit(day))
        on_date.write_parquet(FOLDER / f"polars-{name}.parquet", **options)
        day += dt.timedelta(days=1)
    plain = pq.read_table(rows)
    for name, kinds in HINTS.items():
        hinted = plain.set_column(0, plain.schema.field(0), pa.array([day] * plain.num_rows, pa.date32()))
        for column, kind in kinds.items():
            position = plain.schema.get_field_index(column)
            hinted = hinted.set_column(position, column, pa.chunked_array([as_type(plain[column].to_pylist(), kind)]))
        pq.write_table(hinted, FOLDER / f"pyarrow-{name}.parquet", row_group_size=3)
        day += dt.timedelta(days=1)


def as_type(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(pa.array(values, kind.storage_type))
    return pa.array(values, kind)


if __name__ == "__main__":
    main(sys.argv[1])
