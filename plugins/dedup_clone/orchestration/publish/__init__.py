"""The publish DAG: trigger form, operators, freshness deadline, and the tasks that other DAGs share with it."""
