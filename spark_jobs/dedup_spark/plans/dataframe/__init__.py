"""The two DataFrame plans: the join by key writes dates that cannot be streamed; ROW_NUMBER is the tests' reference."""
