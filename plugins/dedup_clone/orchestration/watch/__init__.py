"""The watch DAG: the step that registers deliveries, and when their publish runs are started and repeated."""
