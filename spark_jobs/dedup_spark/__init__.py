"""The dedup job: reads an attempt, writes a generation's data folder and one candidate. It does not use Airflow."""
