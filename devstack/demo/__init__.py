"""The demo: lands snapshots, follows them through sensor and DAGs, and checks the published tables."""
