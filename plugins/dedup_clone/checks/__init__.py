"""Checks: pure functions that compare a manifest, table metadata and earlier publishes, and return check results."""
