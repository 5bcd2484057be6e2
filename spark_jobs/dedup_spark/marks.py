"""Names of the helper columns that travel with the rows from the readers through a plan to the writer."""

from __future__ import annotations

# Which source a row comes from: 0 is the parent generation, 1… are the applied deliveries in ascending precedence.
SOURCE = "_source"
STATE = 0

# Which slice of its date a row belongs to; a function of the key, so that equal keys meet in one task.
BUCKET = "_bucket"

# True for a row that lost against an equal key of its own delivery: counted as a tie, never written.
SURPLUS = "_surplus"

# Of the winner's key: the greatest source that has it, whether the parent has it, whether its values differ from there.
NEWEST = "_newest"
IN_STATE = "_in_state"
CHANGED = "_changed"

MARKS = (BUCKET, SOURCE, SURPLUS, NEWEST, IN_STATE, CHANGED)
