"""Records and rules that the DAGs, the library and the Spark job share. It imports the standard library only."""
