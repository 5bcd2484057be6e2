"""Leaves rows of erased keys out of a generation."""
