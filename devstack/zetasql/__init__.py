"""Google's own SQL grammar and reference implementation (ZetaSQL), as a check on our SQL and on the stand-in."""
