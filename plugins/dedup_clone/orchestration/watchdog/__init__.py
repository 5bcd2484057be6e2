"""The freshness watchdog DAG, which checks every feed and sends alerts, and the alert test DAG."""
