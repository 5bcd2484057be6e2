"""Names the helper columns that plan `window` adds to rows. The writer reads HELPER_COLUMNS, and writes none of them.

No column of a feed may have a slash in its name (`ColumnName` in the settings), so no column is overwritten.
"""

from __future__ import annotations

# Number of the source of a row: PARENT_SOURCE, or that of a delivery.
SOURCE = "/source"

# Number, within its date, of the file into which the row is written: a function of the key, so that equal keys are in
# one file.
DESTINATION_FILE = "/destination_file"

# Whether the row is surplus: another row of the same delivery and key wins against it. It is counted, but not written.
SURPLUS = "/surplus"

# The next three describe the row's key, whose winner is its one row that is written. The greatest number of a source
# that has the key:
NEWEST = "/newest"
# Whether the parent has the key:
IN_PARENT = "/in_parent"
# Whether the parent's values differ from the winner's:
CHANGED = "/changed"

HELPER_COLUMNS = (DESTINATION_FILE, SOURCE, SURPLUS, NEWEST, IN_PARENT, CHANGED)

# The next three are only used while the rows of a key are ranked. The row's rank; the winner has rank 1:
RANK = "/rank"
# The winner's values:
WINNER = "/winner"
# The lowest rank of a row that is not surplus and has other values than the winner:
FIRST_OTHER = "/first_other"
