"""The dedup job: reads a request, writes a generation's data folder and one candidate manifest. Knows no Airflow."""
