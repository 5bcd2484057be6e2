"""The producer: makes complete snapshots and lands them as the data contract says (files first, marker last)."""
