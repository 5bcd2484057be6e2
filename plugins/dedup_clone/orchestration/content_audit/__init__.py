"""The content audit DAG: its trigger form and its tasks."""
