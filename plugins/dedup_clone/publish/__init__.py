"""The publish protocol, without Airflow. Its modules in the order of the DAG's tasks:

resolve     decide what the publish includes, acquire the lease, write the attempt
load        load the new generation's files into the staging table (the dedup job wrote them)
check       check staging and the manifest
swap        replace target by a clone of staging, or load the same files into it (`publish.swap: copy`)
commit      check target after the swap, commit the generation, write its ledger record, delete folders nobody needs
recovery    after a failed task, a refusal or a dead run: commit if the swap happened, else discard

These modules work with `services` (a feed's settings, its records in state, the warehouse), `attempts` (the attempt and
its records, of which SwapSpec says what the checks allow the swap to make live) and `attempt_jobs` (BigQuery jobs under
ids of the attempt).

early_refusals                 refusals of deliveries before the dedup job
early_checks, sql_checks       checks before the dedup, the feed's own queries; checks that call nothing: `checks/`
parent_generation              the generation on which the publish builds, and its export if its files are not enough
declared_form                  what the feed declares and target does not have yet: columns, options, staging
preview_publish                what a publish would do: a dry run, and what a person approves
partition_comparison           a partition of target compared with its files: content audit, bootstrap, rebuild
existing_table                 the table whose rows a bootstrap or rebuild takes over, and the checks of it
held_deliveries                deliveries that wait for a person, and why
erasure_records                records of erasures, which every later publish reads
reporting, ledger_record, publish_costs, changes_table     what is reported after the commit
date_ranges                    dates and ranges of dates, as people write them

What only rollback, bootstrap, rebuild, erase and retire do is in `dedup_clone/operations/`.
"""
