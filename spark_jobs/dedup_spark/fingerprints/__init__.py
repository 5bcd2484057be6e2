"""Hashes keys and values, and computes fingerprints, which show in which buckets two sets of keys differ."""
