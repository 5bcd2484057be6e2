"""The retire DAG: its trigger form and its own tasks."""
