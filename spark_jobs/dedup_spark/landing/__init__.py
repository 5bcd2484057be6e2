"""Validates landed files before any of them is used: inventory, Parquet footers, values."""
