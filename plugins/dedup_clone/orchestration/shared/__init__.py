"""What several DAGs share: feed setup, DAG factory, the runtime of tasks, and operators for BigQuery jobs."""
