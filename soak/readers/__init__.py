"""Long tests with readers, which query a table while it is swapped.

Every answer must be that of exactly one generation, and no reader may see an older generation than it saw before.
"""
