"""The page Snapshots in Airflow: each feed's live table, waiting deliveries, and forms for replay and rollback."""
