"""Rollback: the content of an earlier generation becomes a new generation."""
