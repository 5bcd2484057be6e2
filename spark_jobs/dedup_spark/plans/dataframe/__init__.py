"""The two DataFrame plans: a join by key, for dates that cannot be streamed, and ROW_NUMBER, the tests' reference."""
