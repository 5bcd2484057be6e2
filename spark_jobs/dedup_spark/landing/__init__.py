"""What was landed, judged before any of it is used: inventory, Parquet footers, contents."""
