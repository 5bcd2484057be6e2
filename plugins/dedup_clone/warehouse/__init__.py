"""BigQuery: metadata of tables and its changes, jobs, streamed rows, and the rendering of the statements in `sql/`."""
