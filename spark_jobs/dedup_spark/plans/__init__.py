"""The plans, one folder each. A plan turns the deliveries and the parent of a date into the date's new files."""
