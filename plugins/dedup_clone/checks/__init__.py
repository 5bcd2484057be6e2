"""The checks of a publish: pure functions of a manifest, table metadata and earlier publishes."""
