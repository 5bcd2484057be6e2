"""Leaves the rows of erased keys out of a generation."""
