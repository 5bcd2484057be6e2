"""The only room that knows Airflow: operators, the sensor, and what the DAG files put together."""
