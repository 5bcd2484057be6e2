"""Erasing keys: the preview, the first task after the approval, and what is deleted after the commit."""
