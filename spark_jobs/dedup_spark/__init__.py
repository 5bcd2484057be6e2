"""The dedup job: reads a request, writes a generation's data folder and one candidate. It does not use Airflow."""
