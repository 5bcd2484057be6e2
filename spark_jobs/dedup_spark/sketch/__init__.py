"""Sums up the rows of a date so that the difference of two sums gives the rows that differ, with all their columns."""
