"""Runners: where the Spark job runs, and the dedup step, which uses them."""
