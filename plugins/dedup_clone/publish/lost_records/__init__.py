"""Restores a feed's records after some or all of them were lost."""
