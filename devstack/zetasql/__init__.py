"""ZetaSQL, Google's SQL grammar and reference implementation, to check this project's SQL and the stand-in."""
