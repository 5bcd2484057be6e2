"""Measurements that print tables: never shipped."""
