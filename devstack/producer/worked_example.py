"""The worked example: two snapshots of a few rows, which show what a publish does to each kind of row."""

from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from devstack.producer.feeds import SCHEMA

PRODUCT = 301865
STORE = 2072
CHANGED_FROM, CHANGED_TO = 20, 25

_Row = tuple[date, int, int, int, int]  # date, product, store, attribute, value


def _snapshot(rows: list[_Row], snapshot_id: int) -> pa.Table:
    columns = zip(*[(*row, snapshot_id) for row in rows], strict=True)
    return pa.table([pa.array(column) for column in columns], names=SCHEMA.names).cast(SCHEMA)


def _rows(day: date, value: int) -> list[_Row]:
    """The rows of both snapshots. Only the first row's value, `value`, differs between them."""
    yesterday = day - timedelta(days=1)
    return [
        (yesterday, PRODUCT, STORE, 1, value),
        (yesterday, PRODUCT, STORE, 2, 7),
        (day, PRODUCT, STORE, 1, 20),
        (day, PRODUCT, 3107, 1, 18),
    ]


def before(day: date, snapshot_id: int, previous: pa.Table | None) -> pa.Table:
    """The first snapshot. To be complete, it also has the rows of `previous`, the snapshot before, on other dates."""
    missing_in_second = (day, 301866, STORE, 4, 3)
    table = _snapshot([*_rows(day, CHANGED_FROM), missing_in_second], snapshot_id)
    return _with_other_dates(table, previous, snapshot_id)


def after(day: date, snapshot_id: int, previous: pa.Table | None) -> pa.Table:
    """The second snapshot. Compared with the first, one value has changed, one key is new and one is missing."""
    # Each snapshot has another new key. Otherwise a repeated demo would find the key in the table already.
    new = (day, 301900 + snapshot_id, STORE, 1, 11)
    table = _snapshot([*_rows(day, CHANGED_TO), new], snapshot_id)
    return _with_other_dates(table, previous, snapshot_id)


def _with_other_dates(table: pa.Table, previous: pa.Table | None, snapshot_id: int) -> pa.Table:
    """The rows of `table`, and those of `previous` on dates that `table` lacks, with the id of the new snapshot."""
    if previous is None:
        return table
    other_rows = previous.filter(pc.invert(pc.is_in(previous["date"], pc.unique(table["date"]))))
    ids = pa.array([snapshot_id] * other_rows.num_rows, pa.int64())
    copied = other_rows.set_column(SCHEMA.get_field_index("update_id"), "update_id", ids)
    return pa.concat_tables([copied.cast(SCHEMA), table])
