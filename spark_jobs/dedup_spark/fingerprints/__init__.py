"""Fingerprints of key sets: they show in which small buckets two sets differ, without the keys at hand."""
