"""Names of the helper columns that travel with the rows from the files through a plan to the writer.

No feed can have a column with a slash in its name (`ColumnName` in the settings), so none is overwritten.
"""

from __future__ import annotations

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import TableContract

# Number of the source that a row comes from: 0 is the parent generation, 1… the applied deliveries, the newest last.
SOURCE = "/source"
PARENT_SOURCE = 0

# Number of the output file within the date that a row goes to: a function of the key, so that equal keys meet.
OUTPUT_FILE = "/output_file"

# True for a surplus row: one that lost against an equal key of its own delivery. It is counted, never written.
SURPLUS = "/surplus"

# About the winner's key: the greatest source that has it, whether the parent has it, and whether the parent's values
# differ from the winner's.
NEWEST = "/newest"
IN_PARENT = "/in_parent"
CHANGED = "/changed"

HELPER_COLUMNS = (OUTPUT_FILE, SOURCE, SURPLUS, NEWEST, IN_PARENT, CHANGED)

# The fingerprint with which a sampled row was read.
READ_FINGERPRINT = "/read_as"

# Used only while the rows of a key are ranked: the row's rank, the winner's values, the first rank with other values.
RANK = "/rank"
WINNER = "/winner"
FIRST_OTHER = "/first_other"

# Whether all delivered rows of a key have the winner's values. Only then can the parent's row be unchanged.
UNBROKEN = "/unbroken"


def require_free_names(table: TableContract) -> None:
    """Raise ConfigurationError where a column of the table is named like a helper column."""
    helpers = {*HELPER_COLUMNS, READ_FINGERPRINT, RANK, WINNER, FIRST_OTHER, UNBROKEN}
    taken = [column.name for column in table.columns if column.name in helpers]
    if taken:
        raise ConfigurationError(f"Columns {taken} are named like helper columns of the Spark job: rename them.")
