"""Plan `adopt`: the newest delivery's own files become a date's, and only the rows that it lacks are written.

No DataFrames here: one call handles one date, in a Spark task, streaming its key columns.
"""
