"""Checks a live environment without changing it, and says what to fix and how."""
