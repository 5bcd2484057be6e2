"""What the DAGs, the library and the Spark job tell each other. Standard library only, shared with Spark."""
