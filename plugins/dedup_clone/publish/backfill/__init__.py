"""Backfill: publishes snapshots of an archive as late snapshots, a few at a time."""
