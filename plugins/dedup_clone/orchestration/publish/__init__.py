"""The publish DAG: trigger form, operators, and the tasks that other DAGs share with it."""
