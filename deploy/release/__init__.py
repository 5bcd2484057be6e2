"""Lays DAGs, plugins, SQL and the Spark job into the buckets: a plan first, then the changes and nothing else."""
