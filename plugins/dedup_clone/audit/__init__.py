"""The content audit: compares target with the published files, by fingerprints of one partition at a time."""
