"""The erase DAG: its trigger form and its own tasks."""
