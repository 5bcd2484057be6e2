"""Plan `adopt`: copies the newest delivery's files of a date if possible, and writes the rows that this delivery lacks.

It does without DataFrames. One call in a Spark task handles one date, and reads its columns batch by batch.
"""
