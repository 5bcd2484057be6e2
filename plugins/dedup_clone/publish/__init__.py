"""The publish protocol, without Airflow. Its modules in the order of the DAG's tasks:

resolve     decide what the publish includes, acquire the lease, write the attempt
load        load the new generation's files into the staging table (the dedup job wrote them)
check       check staging and the manifest before the swap
approval    wait for an operator's approval if the run accepts failed checks; the DAG then swaps by one SQL statement
commit      check target after the swap, commit the generation, write the ledger record
prune       delete the data folders that are no longer needed
recovery    after a failed task, a refusal or a dead run: commit if the swap happened, else discard

These modules work with `services` (a feed's settings, its records in state, the warehouse), `waiting_deliveries` (the
backlog) and `attempt_jobs` (BigQuery jobs under ids of the attempt).

early_refusals                 refusals of deliveries before the dedup job
early_checks, sql_checks       checks before the dedup, the feed's own queries; checks that call nothing: `checks/`
preview_publish                what a publish would do (dry run)
partition_comparison           a partition of target compared with its files: content audit, bootstrap, rebuild
existing_table                 the table whose rows a bootstrap or rebuild takes over, and the checks of it
date_ranges                    dates and ranges of dates, as people write them

planning/      what a publish includes: deliveries, dates, the parent generation
records/       what is recorded: check results, swap, costs, ledger table

What only rollback, bootstrap, rebuild, erase and retire do is in `dedup_clone/operations/`.
"""
