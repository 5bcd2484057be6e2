"""Records and rules that the DAGs, the library and the Spark job share. No module here needs a third-party package."""
