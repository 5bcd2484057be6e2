"""The demo: lands snapshots, follows them through the real sensor and DAGs, and judges the published tables."""
