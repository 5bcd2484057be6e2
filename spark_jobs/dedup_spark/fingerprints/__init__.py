"""Hashes keys and values by the feed's secret seed."""
