"""The content audit: compares partitions of target with the published files, by fingerprints of their rows."""
