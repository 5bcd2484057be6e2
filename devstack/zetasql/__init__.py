"""Runs ZetaSQL, Google's parser and reference implementation of GoogleSQL, which checks SQL and the stand-in."""
