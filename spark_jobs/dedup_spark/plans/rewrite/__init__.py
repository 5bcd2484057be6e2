"""Plan `rewrite` by streaming: writes the rows of a date again, sorted, into files of a target size, without a shuffle.

One call handles one date, without DataFrames. It finds by keys and hashes how the delivery differs from the parent, and
then reads the rows once more to write them. Files of the parent that need no change may be copied instead. Dates that
cannot be streamed are left to plan `window`.
"""
