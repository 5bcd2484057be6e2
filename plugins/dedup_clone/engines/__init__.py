"""The engines that deduplicate in SQL. Spark, the default, is not here: its job lies in spark_jobs/."""
