"""The dedup task of the SQL engines, which deduplicate in BigQuery, and the load task of all engines, without Airflow:

dedup_in_bigquery     the dedup task: examine, load, count, and write the candidate
delivery_examination  validate each delivery
sql_manifest          count by date what the new generation will hold, and build the manifest
staging_job           the job of the load task: a load of files, or the statement of an SQL engine
stream_changes        the load task of engine `cdc`
"""
