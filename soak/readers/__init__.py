"""Long tests with readers, which query a table while publishes swap it.

Every answer must be that of exactly one generation. No answer may be of an older generation than the same reader's
previous answer.
"""
