"""Tries what the design assumes of BigQuery and Cloud Storage, in a throwaway dataset and bucket, for cents."""
