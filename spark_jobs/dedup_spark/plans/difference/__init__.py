"""Finds how the deliveries of one date differ from the parent's rows, for plans adopt and rewrite."""
