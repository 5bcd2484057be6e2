"""Fingerprints of key sets show in which small buckets two sets differ, without reading the keys again."""
