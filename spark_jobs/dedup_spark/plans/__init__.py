"""The plans. A plan writes the new files of a date from its deliveries and the parent's files."""
