"""The verb `feed`: makes a feed file from landed sample files, and validates the files with it."""
