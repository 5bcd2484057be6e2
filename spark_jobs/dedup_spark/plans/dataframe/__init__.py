"""The plans on Spark DataFrames, a join by key and ROW_NUMBER: fallback and oracle of the streaming plans."""
