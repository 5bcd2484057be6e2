"""BigQuery as this project uses it: facts about tables, a few statements, never a read of table data."""
