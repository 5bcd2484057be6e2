"""Finds and writes the rows by which a generation differs from its parent, after all plans have written their files."""
