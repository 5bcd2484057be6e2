"""The demo: lands snapshots, follows their publishes in Airflow, and checks the published tables."""
