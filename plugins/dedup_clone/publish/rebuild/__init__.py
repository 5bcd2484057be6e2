"""Rebuild: the live generation's rows in the form of a changed feed file, as a new generation."""
