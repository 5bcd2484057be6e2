"""Long tests with readers, which query a table while publishes swap it.

Every answer must be that of exactly one generation. No reader may see an older generation than in its answer before.
"""
