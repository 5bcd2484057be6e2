"""Retiring a feed: the preview that an operator approves, and the task that retires the feed."""
