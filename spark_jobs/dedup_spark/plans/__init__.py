"""The plans, one folder each. A plan makes the new files of a date from its deliveries and its parent's files."""
