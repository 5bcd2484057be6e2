"""The two DataFrame plans. The join by key writes dates that cannot be streamed; ROW_NUMBER is the oracle in tests."""
