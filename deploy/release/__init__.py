"""Uploads DAGs, plugins, SQL and the Spark job to the buckets: shows a plan, then makes exactly the planned changes."""
