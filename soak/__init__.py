"""Runs the long tests: kills processes at every step, lands many markers at once, and queries during swaps."""
