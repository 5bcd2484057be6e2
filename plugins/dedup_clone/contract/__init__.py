"""Records and rules that the DAGs, the library and the Spark job share. They need no third-party package."""
