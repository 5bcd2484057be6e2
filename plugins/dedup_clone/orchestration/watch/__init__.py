"""The watch DAG: the sensor that registers deliveries."""
