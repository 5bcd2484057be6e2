"""Reads keys, compares sets of keys, and finds changed rows and duplicate keys, for the plans that stream files."""
