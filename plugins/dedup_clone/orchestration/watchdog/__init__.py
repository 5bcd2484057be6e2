"""The freshness watchdog DAG: checks every feed and sends alerts."""
