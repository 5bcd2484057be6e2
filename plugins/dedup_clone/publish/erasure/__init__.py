"""Erasing keys: the preview, the first task, the records, and what is deleted afterwards."""
