"""The rollback DAG: its trigger form and its own tasks."""
