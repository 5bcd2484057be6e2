"""Fingerprints of key sets: they say in which small buckets two sets differ, without either set at hand."""
