"""Runs work on Spark: the session, tasks over many items or dates, the job's log, worker processes."""
