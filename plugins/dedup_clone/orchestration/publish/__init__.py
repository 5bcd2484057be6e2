"""The publish DAG: trigger form, operators, freshness deadline, and the steps that rollback and bootstrap share."""
