"""The local stack: storage, the BigQuery stand-in and Airflow, started, watched and stopped as one."""
