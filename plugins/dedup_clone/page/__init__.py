"""The page Snapshots in Airflow's navigation: what readers see, what waits, what can be replayed or rolled back."""
