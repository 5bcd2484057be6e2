"""The content audit DAG: its tasks."""
