"""The dedup task of the SQL engines, which deduplicate in BigQuery, and the load task of all engines, without Airflow:

dedup_in_bigquery     the dedup task: examine, load, count, and write the candidate
delivery_examination  validate each delivery; `file_problems` describes what is wrong with its files
incoming_load         load valid deliveries into the incoming table
date_counts           count by date what the new generation will hold
sql_manifest          build the manifest from these counts
stream_changes        the load task of engine `cdc`
staging_job           the job of the load task: a load of files, or the statement of an SQL engine
"""
