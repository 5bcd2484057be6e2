"""What the DAG files are built from, and all that needs Airflow but the page: operators, triggers, tasks and forms."""
