"""Runs ZetaSQL, Google's parser and reference implementation of GoogleSQL, to check SQL files and the stand-in."""
