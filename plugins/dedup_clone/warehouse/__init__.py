"""BigQuery: metadata of tables, jobs, and the rendering of the statements in `sql/`. Reads no table data."""
