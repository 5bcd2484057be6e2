"""The SQL engines, which deduplicate in BigQuery, by one query or by MERGE. The modules in the order of a publish:

dedup_in_bigquery     the dedup task: examine, load, count, and write the candidate
delivery_examination  validate each delivery; `file_problems` describes what is wrong with its files
incoming_load         load valid deliveries into the incoming table
date_counts           count by date what the new generation will hold
sql_manifest          the manifest from those counts
staging_changes       the load task of engine `cdc`; `direct_changes` decides whether target may take the rows at once
staging_job           the job of the load task: a load of files, or the statement of an SQL engine
"""
