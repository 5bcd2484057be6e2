"""Plan `rewrite` by streaming: writes all rows of a date again, sorted, into files of a good size, without a shuffle.

One call handles one date, without DataFrames. Keys and hashes alone show what differs between the newest delivery and
the parent; then the rows are read once more, and written. Dates that cannot be streamed are left to Spark
(`plans/dataframe`).
"""
