"""The bootstrap DAG: its trigger form and its own tasks."""
