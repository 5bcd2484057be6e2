"""The worked example: two snapshots of a few rows, which show what a publish does to each kind of row."""

from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from devstack.producer.feeds import SCHEMA, SNAPSHOT_ID

PRODUCT = 301865
STORE = 2072


def make(day: date, snapshot_id: int, previous: pa.Table | None) -> pa.Table:
    """The first of the two snapshots if there is no `previous` one or the id is odd, otherwise the second.

    Compared with the first, in the second one value has changed, one key is new and one is missing. To be complete, a
    snapshot also has the rows of `previous` on other dates.
    """
    is_first = previous is None or snapshot_id % 2 == 1
    yesterday = day - timedelta(days=1)
    # Each second snapshot has another new key. Otherwise a repeated demo would find the key in the table already.
    only_here = (day, 301866, STORE, 4, 3) if is_first else (day, 301900 + snapshot_id, STORE, 1, 11)
    rows = [
        (yesterday, PRODUCT, STORE, 1, 20 if is_first else 25),
        (yesterday, PRODUCT, STORE, 2, 7),
        (day, PRODUCT, STORE, 1, 20),
        (day, PRODUCT, 3107, 1, 18),
        only_here,
    ]
    columns = zip(*[(*row, snapshot_id) for row in rows], strict=True)
    table = pa.table([pa.array(column) for column in columns], names=SCHEMA.names).cast(SCHEMA)
    if previous is None:
        return table
    other_rows = previous.filter(pc.invert(pc.is_in(previous["date"], pc.unique(table["date"]))))
    ids = pa.array([snapshot_id] * other_rows.num_rows, pa.int64())
    copied = other_rows.set_column(SCHEMA.get_field_index(SNAPSHOT_ID), SNAPSHOT_ID, ids)
    return pa.concat_tables([copied.cast(SCHEMA), table])
