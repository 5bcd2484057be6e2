"""Readers during swaps: every answer must be that of exactly one generation, and never of an older one than before."""
