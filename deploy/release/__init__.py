"""The release: uploads DAGs, plugins, SQL and the Spark job to their buckets, after it has shown what will change."""
