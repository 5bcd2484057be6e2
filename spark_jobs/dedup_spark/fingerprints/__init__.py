"""Hashes keys and values, and computes fingerprints, which show in which small buckets two sets of keys differ."""
