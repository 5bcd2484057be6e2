"""Operators, triggers, tasks and forms, from which the DAG files are built. Only this folder and `page` use Airflow."""
