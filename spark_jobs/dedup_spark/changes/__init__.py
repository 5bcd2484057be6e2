"""Finds and writes the rows that differ between a generation and its parent, after all plans have written files."""
