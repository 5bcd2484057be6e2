"""The rebuild DAG: its trigger form and its own tasks."""
