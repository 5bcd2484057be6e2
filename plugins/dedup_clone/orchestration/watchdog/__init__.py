"""The freshness watchdog DAG, which checks every feed and sends alerts."""
