"""The producer: generates complete snapshots, and lands them as the data contract demands, the marker last."""
