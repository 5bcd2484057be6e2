"""The probe: tests on Google Cloud what the design assumes of BigQuery and Cloud Storage.

It works in a dataset and two GCS buckets of its own and deletes them at the end. It costs a few cents.
"""
