"""Composes what the job returns: the new generation's manifest, metrics and examples of keys."""
