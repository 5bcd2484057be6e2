"""Records and rules shared by the DAGs, the library and the Spark job. Standard library only."""
