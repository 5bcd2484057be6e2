"""Reads and writes the records in the state bucket, which has a folder for each feed; polls the landing bucket."""
