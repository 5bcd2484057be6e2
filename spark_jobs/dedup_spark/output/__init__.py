"""Writes the Parquet files of the new generation, and copies the parent's files that it keeps."""
