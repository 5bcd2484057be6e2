"""The watch DAG: the sensor that registers deliveries, and when their publish runs are started and repeated."""
