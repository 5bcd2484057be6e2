"""The backfill DAG: its trigger form and its own tasks."""
