"""How the job runs on Spark: the session, tasks over many items or dates, progress, worker processes."""
