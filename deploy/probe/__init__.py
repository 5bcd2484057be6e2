"""The probe: tests on Google Cloud what the design assumes of BigQuery and Cloud Storage.

It works in a dataset and a bucket of its own, which it deletes at the end, and costs cents.
"""
