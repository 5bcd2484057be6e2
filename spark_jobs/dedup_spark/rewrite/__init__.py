"""Plan `rewrite` by streaming: a date's rows are written anew, sorted, into files of a good size, without a shuffle.

No DataFrames here: one call handles one date. What differs between the newest delivery and the parent is found by keys
and hashes alone; rows are then read once more, and written. What cannot be done so is left to Spark (`plans/`).
"""
