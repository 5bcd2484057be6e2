"""Backfill: lands the snapshots of an archive, usually late ones, a few at a time."""
